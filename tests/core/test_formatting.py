import pytest
from hypothesis import given
from hypothesis import strategies as st

from epagcl.core.formatting import (
    counted,
    duration,
    listed,
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


def test_names_are_listed_as_in_a_sentence():
    assert [listed(list("abc")[:k]) for k in range(4)] == ["none", "a", "a and b", "a, b and c"]


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


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.0314, "0.031 s"),
        (3.14159, "3.1 s"),
        (9.99, "10 s"),
        (59.96, "60 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (3599.6, "60 min"),
        (5400, "1.5 h"),
        (47.9 * 3600, "47.9 h"),
        (2 * 86400, "2 days"),
        (1e9, "11,574 days"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words
