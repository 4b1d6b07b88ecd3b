import csv
import io

import pytest

from epagcl.cli.rendering import artefact_table
from epagcl.paper.tables import (
    BEST,
    SECOND,
    Table,
    TableCell,
    comma_separated,
    escape_stars,
    latex,
    markdown,
    marked,
    wrap,
)

TABLE = Table(
    "slug",
    "A title, 50%",
    ["method", "A_1", "x|y"],
    [["GCA*", TableCell("83.1 ± 1.2", BEST), TableCell("α ≤ 1", SECOND)], ["r & s", "−1", ""]],
    "A note.",
)


def test_markdown_marks_and_escapes():
    assert markdown(TABLE) == (
        "*A title, 50%*\n\n"
        "| method | A_1 | x\\|y |\n"
        "|---|--:|--:|\n"
        "| GCA\\* | **83.1 ± 1.2** | <u>α ≤ 1</u> |\n"
        "| r & s | −1 |  |\n\n"
        "A note.\n"
    )


def test_folded_table_is_in_details():
    text = markdown(Table("", "Long", ["a"], [["1"]], folded=True))
    assert text.startswith("<details><summary>Long</summary>\n\n| a |")
    assert text.rstrip().endswith("</details>")


def test_latex_marks_and_escapes():
    text = latex(TABLE)
    assert r"GCA* & \textbf{83.1 $\pm$ 1.2} & \underline{$\alpha$ $\le$ 1} \\" in text
    assert r"r \& s & $-$1 &  \\" in text
    assert r"method & A\_1 & x\textbar{}y \\" in text
    assert r"\caption{A title, 50\%. A note.}" in text
    assert r"\begin{tabular}{lrr}" in text
    assert text.isascii()


def test_csv_has_the_plain_cells():
    rows = list(csv.reader(io.StringIO(comma_separated(TABLE))))
    assert rows == [["method", "A_1", "x|y"], ["GCA*", "83.1 ± 1.2", "α ≤ 1"], ["r & s", "−1", ""]]


def test_terminal_shows_every_cell(capsys):
    from epagcl.cli.rendering import show

    show(artefact_table(TABLE))
    out = capsys.readouterr().out
    assert "83.1 ± 1.2" in out
    assert "GCA*" in out


def test_best_and_second_best_with_ties_and_missing_values():
    cells = marked([3.0, None, 5.0, 4.0, 5.0], list("abcde"))
    assert [cell.mark for cell in cells] == ["", "", BEST, SECOND, BEST]
    assert [cell.mark for cell in marked([3.0, 1.0, 2.0], list("abc"), smallest=True)] == ["", BEST, SECOND]
    assert [cell.mark for cell in marked([None], ["a"])] == [""]


def test_rows_of_another_length_are_rejected():
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        Table("", "t", ["a", "b"], [["1"]])


def test_prose_is_wrapped_without_breaking_words_or_starting_a_list():
    words = "a-hyphenated-word and some more of them, " * 9
    lines = wrap(words + "x" * 130, bullet="- ").splitlines()
    assert lines[0].startswith("- a-hyphenated-word")
    assert all(line.startswith("  ") for line in lines[1:])
    assert [len(line) > 120 for line in lines] == [False] * (len(lines) - 1) + [True]
    assert " ".join(" ".join(lines).removeprefix("- ").split()) == words + "x" * 130
    for mark in ("-", "+", "*", "#", ">", "1.", "2)", "="):
        first, second = wrap("y" * 118 + f" {mark} z").splitlines()[-2:]
        assert (first, second) == ("y" * 118 + f" {mark}", "z")


def test_stars_are_escaped_in_prose():
    assert escape_stars("GCA*") == "GCA\\*"


def test_the_note_of_a_table_is_wrapped():
    note = "A long note. " * 20
    text = markdown(Table("", "t", ["a"], [["1"]], note.strip()))
    assert max(map(len, text.splitlines())) <= 120
    assert " ".join(text.split("|\n\n")[1].split()) == note.strip()
