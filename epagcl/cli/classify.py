"""``epagcl classify``: classes of all nodes from a few labels."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epagcl.cli.options import AsJson, Embeddings, IdColumn, LabelColumn
from epagcl.cli.progress import busy, console_for
from epagcl.cli.rendering import show, table
from epagcl.core.formatting import counted

if TYPE_CHECKING:
    from rich.table import Table

    from epagcl.tasks.classifier import Classification


def classify(
    z: Embeddings,
    labels: Annotated[
        Path, typer.Option(help="Labels of some nodes: a table (id, label), .npy in row order, or an ingested graph.")
    ],
    id_: IdColumn = None,
    label: LabelColumn = None,
    out: Annotated[Path, typer.Option(help="Output table of all nodes: .csv, .tsv or .parquet.")] = Path(
        "predictions.csv"
    ),
    curve: Annotated[bool, typer.Option(help="Measure how accuracy grows with the number of labels.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds and draws.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Predict the class of every node from the labels of some, with probabilities and their calibration error.

    Example: epagcl classify z.npy --labels l.csv --out p.csv
    """
    with busy(console_for(), "classifying"):
        from epagcl.data.io.roles import OPTION, Roles
        from epagcl.runs.reading import read_embeddings
        from epagcl.tasks.classifier import classify as classify_rows
        from epagcl.tasks.inputs import check_table, labels_by_id, write_table

        check_table(out, z, labels)
        rows, ids = read_embeddings(z)
        y = labels_by_id(labels, ids, Roles(id=id_, label=label, argument=OPTION))
        result = classify_rows(rows, y, curve=curve, seed=seed)
        predictions = result.table(ids)
        predictions.insert(1, "label", y)
        write_table(predictions, out)
    if as_json:
        print(json.dumps({**result.to_dict(), "file": str(out)}, indent=2))
    else:
        show(*_items(result), f"written: {out}")


def _items(result: "Classification") -> "list[str | Table]":
    labelled = f"{counted(result.labelled, 'label')} of {len(result.classes)} classes"
    items: list[str | Table] = [
        f"{labelled}: accuracy {result.accuracy:.3f} by cross-validation (largest class: {result.majority:.3f})"
    ]
    if result.calibration_error is not None:
        before = f"{result.calibration_error_before:.3f} before calibration"
        items.append(f"expected calibration error {result.calibration_error:.3f} ({before})")
    if result.curve is not None:
        points = table(">labels per class", ">labels", ">accuracy", ">standard error")
        for point in result.curve.points:
            points.add_row(str(point.per_class), f"{point.labels:,}", f"{point.accuracy:.3f}", f"{point.error:.3f}")
        items.append(points)
    return items + list(result.words())
