"""``epagcl anomalies``: nodes that do not fit."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.cli.options import AsJson, Embeddings, TableOut
from epagcl.cli.progress import busy, console_for
from epagcl.cli.rendering import show, table
from epagcl.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@takes_graph("graph", "labels", "name")
def anomalies(
    z: Embeddings,
    inputs: GraphInput,
    graph: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="The graph, named or as a file.")] = None,
    density: Annotated[
        str,
        typer.Option(help="lof (local outlier factor), knn (distance to the nearest nodes) or forest (isolation)."),
    ] = "lof",
    k: Annotated[int, typer.Option(min=1, help="Number of nearest nodes, for lof and knn.")] = 20,
    top: Annotated[int, typer.Option(min=1, help="How many nodes to list.")] = 20,
    out: TableOut = None,
    as_json: AsJson = False,
) -> None:
    """List the most anomalous nodes of an embedding, with reasons. With the graph, nodes unlike their neighbours too.

    Example: epagcl anomalies z.npy --edges e.csv --features f.npy --out scores.csv
    """
    with busy(console_for(), "scoring"):
        from epagcl.runs.reading import read_embeddings
        from epagcl.tasks.anomalies import anomaly_scores
        from epagcl.tasks.inputs import check_table, graph_by_row, write_table

        check_table(out, z, graph, *inputs.files.values())
        rows, ids = read_embeddings(z)
        edge_index = x = None
        if graph is not None or inputs.edges is not None:
            loaded = replace(inputs, graph=graph).load(need_features=inputs.features is not None)
            edge_index, x = graph_by_row(loaded.data, ids, loaded.name)
        elif inputs.features is not None:
            raise InputError("--features needs the graph; give --edges")
        scores = anomaly_scores(rows, edge_index, x=x, density=density, k=k)
        scores.insert(0, "id", ids)
        if out is not None:
            write_table(scores, out)
    worst = scores.nlargest(top, "score")
    if as_json:
        records = json.loads(worst.to_json(orient="records"))
        print(json.dumps({"nodes": len(scores), "top": records, "file": None if out is None else str(out)}, indent=2))
    else:
        _show(worst)
        show(f"the {len(worst)} highest scores of {len(scores):,} nodes; scores rank nodes of this graph only")
        if out is not None:
            show(f"written: {out}")


def _show(worst: "pd.DataFrame") -> None:
    columns = [name for name in worst.columns if name not in ("id", "reason")]
    listed = table("node", *(f">{name}" for name in columns), "reason")
    for _, row in worst.iterrows():
        cells = [f"{row[name]:,}" if name == "degree" else f"{row[name]:.3f}" for name in columns]
        listed.add_row(str(row["id"]), *cells, row["reason"])
    show(listed)
