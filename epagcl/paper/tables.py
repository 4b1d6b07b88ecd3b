"""A table once, and the ways to write it: terminal, Markdown, LaTeX, CSV."""

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

BEST, SECOND = "best", "second"


@dataclass(frozen=True)
class Cell:
    """What stands in a cell, and whether it is the best or the runner-up of its column."""

    text: str
    mark: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Table:
    """A table of an artefact.

    Attributes:
        slug: part of its file names; empty for an artefact's main table.
        title: what it shows, in words.
        columns: heads; all but the first are right-aligned.
        rows: cells or plain text.
        note: protocol, runs, provenance.
        folded: long; Markdown pages show it on request.
    """

    slug: str
    title: str
    columns: list[str]
    rows: list[list[Cell | str]]
    note: str = ""
    folded: bool = False

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: {len(row)} cells for {len(self.columns)} columns: {row}")


def markdown(table: Table) -> str:
    """Best in bold, runner-up underlined."""
    wraps = {BEST: "**{}**", SECOND: "<u>{}</u>", "": "{}"}
    lines = [
        "| " + " | ".join(_pipe(column) for column in table.columns) + " |",
        "|---|" + "--:|" * (len(table.columns) - 1),
        *(
            "| " + " | ".join(wraps[mark(cell)].format(_pipe(str(cell))) if str(cell) else "" for cell in row) + " |"
            for row in table.rows
        ),
    ]
    if table.folded:
        lines = [f"<details><summary>{table.title}</summary>", "", *lines, "", "</details>"]
    else:
        lines = [f"*{table.title}*", "", *lines]
    return "\n".join([*lines, *(["", table.note] if table.note else [])]) + "\n"


def latex(table: Table) -> str:
    """A table for booktabs and graphicx, as wide as the text: best in bold, runner-up underlined."""
    wraps = {BEST: r"\textbf{%s}", SECOND: r"\underline{%s}", "": "%s"}
    lines = [
        r"\begin{table}",
        r"\centering",
        r"\resizebox{\linewidth}{!}{%",
        r"\begin{tabular}{l" + "r" * (len(table.columns) - 1) + "}",
        r"\toprule",
        " & ".join(_escape(column) for column in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(wraps[mark(cell)] % _escape(str(cell)) for cell in row) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}}",
        rf"\caption{{{_escape(' '.join([table.title + '.', table.note]).strip())}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def comma_separated(table: Table) -> str:
    """Heads and cells as they are."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([str(cell) for cell in row] for row in table.rows)
    return text.getvalue()


def marked(values: list[float | None], texts: list[str], *, smallest: bool = False) -> list[Cell]:
    """Cells of a column with the best and the runner-up marked, ties alike; None takes no part."""
    order = sorted({value for value in values if value is not None}, reverse=not smallest)
    marks = dict(zip(order, (BEST, SECOND), strict=False))
    return [
        Cell(text, "" if value is None else marks.get(value, "")) for value, text in zip(values, texts, strict=True)
    ]


def mark(cell: Cell | str) -> str:
    return cell.mark if isinstance(cell, Cell) else ""


def _pipe(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": r"$-$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "→": r"$\to$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
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


def _escape(text: str) -> str:
    return re.sub("|".join(map(re.escape, _LATEX)), lambda found: _LATEX[found[0]], text)
