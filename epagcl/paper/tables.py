"""Tables of the artefacts, and their forms: Markdown, LaTeX, CSV."""

import csv
import io
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

BEST, SECOND = "best", "second"
#: Longest line of Markdown prose.
WIDTH = 120


@dataclass(frozen=True)
class TableCell:
    """The text of a cell, marked if it is the best or the second best of its column."""

    text: str
    mark: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Table:
    """A table of an artefact.

    Attributes:
        slug: part of the file names; empty for the main table of an artefact.
        title: what the table shows.
        columns: the column headers. All columns but the first are right-aligned.
        rows: one cell per column.
        note: protocol, number of runs and hardware.
        folded: whether Markdown pages fold the table, because it is long.
    """

    slug: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[TableCell | str]]
    note: str = ""
    folded: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: {len(row)} cells for {len(self.columns)} columns: {row}")


def markdown(table: Table) -> str:
    """Return a table as Markdown, with the best in bold and the second best underlined."""
    formats = {BEST: "**{}**", SECOND: "<u>{}</u>", "": "{}"}
    lines = [
        "| " + " | ".join(_escape_markdown(column) for column in table.columns) + " |",
        "|---|" + "--:|" * (len(table.columns) - 1),
        *(
            "| "
            + " | ".join(formats[mark(cell)].format(_escape_markdown(str(cell))) if str(cell) else "" for cell in row)
            + " |"
            for row in table.rows
        ),
    ]
    if table.folded:
        lines = [f"<details><summary>{table.title}</summary>", "", *lines, "", "</details>"]
    else:
        lines = [f"*{table.title}*", "", *lines]
    return "\n".join([*lines, *(["", wrap(table.note)] if table.note else [])]) + "\n"


def wrap(text: str, bullet: str = "") -> str:
    """Break Markdown prose into lines of at most :data:`WIDTH` characters; a bullet indents the lines after the first.

    No line starts with a word that Markdown reads as the start of a list, a heading or a quotation.
    """
    glue = "\0"
    glued = re.sub(r" (?=(?:[-+*>=]|#+|\d+[.)])(?: |$))", glue, text)
    lines = textwrap.wrap(
        glued,
        WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace(glue, " ")


def latex(table: Table) -> str:
    """Return a table for booktabs and graphicx, as wide as the text: best in bold, second best underlined."""
    formats = {BEST: r"\textbf{%s}", SECOND: r"\underline{%s}", "": "%s"}
    lines = [
        r"\begin{table}",
        r"\centering",
        r"\resizebox{\linewidth}{!}{%",
        r"\begin{tabular}{l" + "r" * (len(table.columns) - 1) + "}",
        r"\toprule",
        " & ".join(_escape_latex(column) for column in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(formats[mark(cell)] % _escape_latex(str(cell)) for cell in row) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}}",
        rf"\caption{{{_escape_latex(' '.join([table.title + '.', table.note]).strip())}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def comma_separated(table: Table) -> str:
    """Return a table as CSV, without marks."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([str(cell) for cell in row] for row in table.rows)
    return text.getvalue()


def marked(values: Sequence[float | None], texts: Sequence[str], *, smallest: bool = False) -> list[TableCell]:
    """Return the cells of a column with the best and the second best marked.

    Args:
        values: what is compared; equal values get the same mark, None gets none.
        texts: the text of each cell.
        smallest: whether the smallest value is the best.
    """
    order = sorted({value for value in values if value is not None}, reverse=not smallest)
    marks = dict(zip(order, (BEST, SECOND), strict=False))
    return [
        TableCell(text, "" if value is None else marks.get(value, ""))
        for value, text in zip(values, texts, strict=True)
    ]


def mark(cell: TableCell | str) -> str:
    """Return the mark of a cell; plain text has none."""
    return cell.mark if isinstance(cell, TableCell) else ""


def escape_stars(text: str) -> str:
    """Escape the star of a row such as ``EPAGCL*`` in Markdown prose."""
    return text.replace("*", r"\*")


def _escape_markdown(text: str) -> str:
    return escape_stars(text.replace("|", r"\|"))


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    "×": r"$\times$",
    "−": r"$-$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "→": r"$\to$",
    "Δ": r"$\Delta$",
    "Â": r"$\hat{A}$",
    "²": r"$^2$",
    "α": r"$\alpha$",
    "ρ": r"$\rho$",
    "τ": r"$\tau$",
    "∞": r"$\infty$",
    "–": "--",
    "·": r"$\cdot$",
    "…": r"\dots{}",
    "“": "``",
    "”": "''",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}


def _escape_latex(text: str) -> str:
    return re.sub("|".join(map(re.escape, _LATEX)), lambda match: _LATEX[match[0]], text)
