import pytest
from hypothesis import given
from hypothesis import strategies as st

from epagcl.core.formatting import (
    counted,
    mean_and_std,
    one_line,
    percent,
    spreadsheet_original,
    spreadsheet_text,
)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((84.6, 1.04), "84.6 ± 1.0"),
        ((84.6,), "84.6"),
        ((84.6, None, 0), "85"),
        ((84.649, 0.0, 2), "84.65 ± 0.00"),
        ((-0.5, 2.25, 3), "-0.500 ± 2.250"),
    ],
)
def test_mean_with_its_standard_deviation(arguments, text):
    assert mean_and_std(*arguments) == text


def test_percent_has_no_deviation_for_one_run():
    assert percent({"mean": 0.846, "std": 0.0, "runs": [0.846]}) == "84.6"
    assert percent({"mean": 0.846, "std": 0.0, "runs": [0.846, 0.846]}) == "84.6 ± 0.0"


def test_percent_with_digits():
    assert percent({"mean": 0.84617, "std": 0.01042, "runs": [0.83, 0.86]}, digits=2) == "84.62 ± 1.04"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 edges"), (1, "1 edge"), (2, "2 edges"), (1_000_000, "1,000,000 edges")]
)
def test_counts_have_separators_and_plurals(count, text):
    assert counted(count, "edge") == text


@given(st.text())
def test_one_line_has_no_control_characters_and_a_bounded_length(text):
    line = one_line(text, 50)
    assert not {"\n", "\r", "\x1b", "\x7f", "\x00", "\u202e", "\u2028"} & set(line)
    assert len(line) <= 50 * 10
    line.encode()
    if text.isprintable() and len(text) <= 50:
        assert line == text


def test_a_long_text_keeps_its_beginning_and_its_end():
    text = one_line("a" * 200_000 + "; rename it")
    assert len(text) == 1000
    assert text.startswith("aaa")
    assert text.endswith("; rename it")


@given(st.text(alphabet="'=+-@\t\r1e.a"))
def test_cells_are_restored_and_never_formulas(text):
    cell = spreadsheet_text(text)
    assert spreadsheet_original(cell) == text
    if cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
        float(cell)  # numbers stay numbers
