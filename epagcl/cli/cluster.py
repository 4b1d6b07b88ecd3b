"""``epagcl cluster``: clusters of nodes, and whether they are stable."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epagcl.cli.options import AsJson, Embeddings, IdColumn, LabelColumn, Labels, TableOut
from epagcl.cli.progress import busy, console_for
from epagcl.cli.rendering import show, table

if TYPE_CHECKING:
    from rich.table import Table

    from epagcl.tasks.clusters import Clusters

SHOWN = 20  # clusters in the terminal


def cluster(
    z: Embeddings,
    k: Annotated[
        str, typer.Option(help="Number of clusters, or auto: chosen from 2 to 15 by stability and silhouette.")
    ] = "auto",
    method: Annotated[
        str, typer.Option(help="kmeans, or hdbscan, which finds the number and leaves noise.")
    ] = "kmeans",
    min_size: Annotated[int | None, typer.Option(help="Nodes in the smallest cluster of hdbscan. Default: 1%.")] = None,
    labels: Labels = None,
    id_: IdColumn = None,
    label: LabelColumn = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    out: TableOut = None,
    as_json: AsJson = False,
) -> None:
    """Cluster the nodes of an embedding, and measure whether other samples of the nodes give the same clusters.

    Example: epagcl cluster z.npy --k 7 --out clusters.csv
    """
    with busy(console_for(), "clustering"):
        import pandas as pd

        from epagcl.data.io.roles import OPTION, Roles
        from epagcl.runs.reading import read_embeddings
        from epagcl.tasks.clusters import cluster as cluster_rows
        from epagcl.tasks.inputs import check_table, labels_by_id, write_table

        check_table(out, z, labels)
        rows, ids = read_embeddings(z)
        y = None if labels is None else labels_by_id(labels, ids, Roles(id=id_, label=label, argument=OPTION))
        found = cluster_rows(rows, k, method=method, min_size=min_size, y=y, seed=seed)
        if out is not None:
            write_table(pd.DataFrame({"id": ids, "cluster": found.of_node}), out)
    if as_json:
        print(json.dumps({**found.to_dict(), "file": None if out is None else str(out)}, indent=2))
    else:
        show(*_items(found, out))


def _items(found: "Clusters", out: Path | None) -> "list[str | Table]":
    items: list[str | Table] = []
    if found.candidates:
        tried = table(">k", ">stability", ">silhouette")
        for candidate in found.candidates:
            tried.add_row(str(candidate.k), f"{candidate.stability:.3f}", f"{candidate.silhouette:.3f}")
        items.append(tried)
    sizes = ", ".join(f"{size:,}" for size in found.sizes[:SHOWN]) + (", ..." if found.k > SHOWN else "")
    noise = f", {found.noise:,} nodes without a cluster" if found.noise else ""
    items.append(f"{found.method}: {found.k} clusters of {sizes} nodes{noise}")
    if found.silhouette is not None:
        items.append(f"silhouette {found.silhouette:.3f} (−1 to 1)")
    if found.agreement is not None:
        items.append(f"agreement with the labels: NMI {found.agreement['nmi']:.3f}, ARI {found.agreement['ari']:.3f}")
    return [*items, *found.words(), *([] if out is None else [f"written: {out}"])]
