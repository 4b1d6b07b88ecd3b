"""Numbers as text: means and their standard deviation, counts, durations; lists; and users' text in one line."""

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

#: Longest text that :func:`one_line` leaves whole.
LONGEST = 1000
#: Line breaks and controls, also of the writing direction, and halves of characters.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Spreadsheets read text that begins with one of these as a formula.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def mean_and_std(mean: float, std: float | None = None, digits: int = 1) -> str:
    """Return ``"84.6 ± 1.0"``, or ``"84.6"`` without a standard deviation.

    Examples:
        >>> mean_and_std(84.55, 1.04)
        '84.5 ± 1.0'
        >>> mean_and_std(84.55, digits=2)
        '84.55'
    """
    return f"{mean:.{digits}f}" if std is None else f"{mean:.{digits}f} ± {std:.{digits}f}"


def percent(spread: Mapping[str, Any], digits: int = 1) -> str:
    """Return the mean of several runs in percent, with the standard deviation unless there is only one run.

    Args:
        spread: ``mean``, ``std`` and ``runs`` between 0 and 1, as :func:`epagcl.evaluation.spread` returns them.
        digits: the number of digits after the decimal point.

    Examples:
        >>> percent({"mean": 0.8455, "std": 0.0104, "runs": [0.83, 0.86]}, digits=2)
        '84.55 ± 1.04'
        >>> percent({"mean": 0.8455, "std": 0.0, "runs": [0.8455]})
        '84.5'
    """
    return mean_of_runs(spread, digits, factor=100)


def mean_of_runs(spread: Mapping[str, Any], digits: int = 1, factor: float = 1.0) -> str:
    """Return the mean of several runs, with the standard deviation unless there is only one run.

    Args:
        spread: ``mean``, ``std`` and ``runs``, as :func:`epagcl.evaluation.spread` returns them.
        digits: the number of digits after the decimal point.
        factor: what the mean and the standard deviation are multiplied by.

    Examples:
        >>> mean_of_runs({"mean": 84.55, "std": 1.04, "runs": [83, 86]})
        '84.5 ± 1.0'
        >>> mean_of_runs({"mean": 84.55, "std": 0.0, "runs": [84.55]})
        '84.5'
    """
    std = factor * spread["std"] if len(spread["runs"]) > 1 else None
    return mean_and_std(factor * spread["mean"], std, digits)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1.

    Examples:
        >>> counted(1, "node"), counted(2708, "node")
        ('1 node', '2,708 nodes')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def short_commit(commit: str | None) -> str:
    """Return the first digits of a commit, and the plus sign of one with changes that were not committed.

    Examples:
        >>> short_commit("0123456789+"), short_commit(None)
        ('0123456+', 'unknown')
    """
    return "unknown" if commit is None else commit[:7] + "+" * commit.endswith("+")


def suggestion(name: str, names: Collection[str]) -> str:
    """Return what to give in place of an unknown name: the most similar one, or one of all.

    Examples:
        >>> suggestion("graec", ["gca", "grace"]), suggestion("foo", ["gca", "grace"])
        ('did you mean grace?', 'choose one of gca, grace')
    """
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else f"choose one of {', '.join(names)}"


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence, "none" if there are none.

    Examples:
        >>> listed([]), listed(["Cora"]), listed(["Cora", "Texas", "Actor"])
        ('none', 'Cora', 'Cora, Texas and Actor')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "none"


def span(values: Iterable[float], form: str = "") -> str:
    """Return the smallest and the largest value as text; one value if both read the same, nothing without values.

    Examples:
        >>> span([0.07, 0.02, 0.05], ".0%"), span([5, 5], "d"), span([])
        ('2% to 7%', '5', '')
    """
    ends = sorted(values)
    return " to ".join(dict.fromkeys(f"{end:{form}}" for end in (*ends[:1], *ends[-1:])))


def counted_span(counts: Iterable[int], noun: str) -> str:
    """Return the smallest and the largest count with their noun, in the plural unless every count is 1.

    Examples:
        >>> counted_span([5, 20, 10], "seed"), counted_span([1, 1], "seed"), counted_span([], "run")
        ('5 to 20 seeds', '1 seed', 'no runs')
    """
    ends = span(counts)
    return f"{ends or 'no'} {noun}{'s' * (ends != '1')}"


def signed(number: float, digits: int = 1) -> str:
    """Return a difference with its sign, without a negative zero.

    Examples:
        >>> signed(-0.01), signed(1.25, 2)
        ('+0.0', '+1.25')
    """
    return f"{number:+z.{digits}f}"


def paragraph(*sentences: str) -> str:
    """Return sentences with spaces between them. Empty ones are left out.

    Examples:
        >>> paragraph("One.", "", "Two.")
        'One. Two.'
    """
    return " ".join(filter(None, sentences))


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it, with two or three digits.

    Examples:
        >>> [duration(seconds) for seconds in (0.25, 4, 90, 1800, 7200, 10 * 86400)]
        ['0.25 s', '4 s', '90 s', '30 min', '2.0 h', '10 days']
    """
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * 86400 else f"{seconds / 86400:,.0f} days"


def one_line(text: object, longest: int = LONGEST) -> str:
    """Return text for a terminal: line breaks and control characters escaped, and a long text cut in its middle.

    Args:
        text: the text, which may quote what users wrote.
        longest: number of characters to keep.

    Examples:
        >>> one_line("id \\x1b[31mred" + chr(10))
        'id \\\\x1b[31mred\\\\n'
        >>> one_line("abcdefghij", longest=6)
        'abcd…j'
    """
    text = str(text)
    if len(text) > longest:
        tail = longest // 5
        text = f"{text[: longest - 1 - tail]}…{text[len(text) - tail :]}"
    if text.isprintable():
        return text
    return "".join(
        letter.encode("unicode_escape").decode() if unicodedata.category(letter) in _UNPRINTABLE else letter
        for letter in text
    )


def spreadsheet_text(cell: Any) -> Any:
    """Return a cell of a CSV file. Text that a spreadsheet would read as a formula gets a leading apostrophe.

    Numbers stay as they are. :func:`spreadsheet_original` is the inverse.

    Examples:
        >>> [spreadsheet_text(cell) for cell in ("=1+2", "-5", "@a", "a", 3)]
        ["'=1+2", '-5', "'@a", 'a', 3]
    """
    risky = isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if risky else cell


def spreadsheet_original(cell: Any) -> Any:
    """Return a cell as it was before :func:`spreadsheet_text`.

    Examples:
        >>> [spreadsheet_original(cell) for cell in ("'=1+2", "-5", "'a", 3)]
        ['=1+2', '-5', "'a", 3]
    """
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell) else cell
