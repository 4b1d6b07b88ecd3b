import csv
import io

import pytest

from epagcl.cli.rendering import artefact_table
from epagcl.paper.tables import BEST, SECOND, Cell, Table, comma_separated, latex, markdown, marked

TABLE = Table(
    "slug",
    "A title, 50%",
    ["method", "A_1", "x|y"],
    [["GCA*", Cell("83.1 ± 1.2", BEST), Cell("α ≤ 1", SECOND)], ["r & s", "−1", ""]],
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


def test_a_folded_table_opens_on_request():
    text = markdown(Table("", "Long", ["a"], [["1"]], folded=True))
    assert text.startswith("<details><summary>Long</summary>\n\n| a |")
    assert text.rstrip().endswith("</details>")


def test_latex_has_no_character_that_would_not_compile():
    text = latex(TABLE)
    assert r"GCA* & \textbf{83.1 $\pm$ 1.2} & \underline{$\alpha$ $\le$ 1} \\" in text
    assert r"r \& s & $-$1 &  \\" in text
    assert r"method & A\_1 & x\textbar{}y \\" in text
    assert r"\caption{A title, 50\%. A note.}" in text
    assert r"\begin{tabular}{lrr}" in text
    assert text.isascii()


def test_csv_is_what_the_cells_say():
    rows = list(csv.reader(io.StringIO(comma_separated(TABLE))))
    assert rows == [["method", "A_1", "x|y"], ["GCA*", "83.1 ± 1.2", "α ≤ 1"], ["r & s", "−1", ""]]


def test_the_terminal_has_every_cell(capsys):
    from epagcl.cli.rendering import show

    show(artefact_table(TABLE))
    out = capsys.readouterr().out
    assert "83.1 ± 1.2" in out
    assert "GCA*" in out


def test_best_and_runner_up_with_ties_and_gaps():
    cells = marked([3.0, None, 5.0, 4.0, 5.0], list("abcde"))
    assert [cell.mark for cell in cells] == ["", "", BEST, SECOND, BEST]
    assert [cell.mark for cell in marked([3.0, 1.0, 2.0], list("abc"), smallest=True)] == ["", BEST, SECOND]
    assert [cell.mark for cell in marked([None], ["a"])] == [""]


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        Table("", "t", ["a", "b"], [["1"]])
