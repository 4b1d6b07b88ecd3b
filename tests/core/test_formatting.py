import pytest
from hypothesis import given
from hypothesis import strategies as st

from epagcl.core.formatting import (
    counted,
    counted_span,
    duration,
    listed,
    mean_and_std,
    mean_of_runs,
    one_line,
    percent,
    spreadsheet_original,
    spreadsheet_text,
    suggestion,
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


def test_the_mean_of_one_run_has_no_deviation():
    assert mean_of_runs({"mean": 62.6, "std": 0.0, "runs": [62.6]}) == "62.6"
    assert mean_of_runs({"mean": 62.6, "std": 0.5, "runs": [62.1, 63.1]}, digits=2) == "62.60 ± 0.50"


def test_spans_of_counts_have_their_noun():
    texts = [counted_span(counts, "run") for counts in ([], [1, 1], [1, 3], [3], [2, 5, 4])]
    assert texts == ["no runs", "1 run", "1 to 3 runs", "3 runs", "2 to 5 runs"]


def test_a_similar_name_is_suggested_or_all_are_listed():
    assert suggestion("acuracy", ["epr", "accuracy"]) == "did you mean accuracy?"
    assert suggestion("foo", ["epr", "accuracy"]) == "choose one of epr, accuracy"
