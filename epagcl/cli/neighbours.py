"""``epagcl neighbours``: the nearest nodes in an embedding."""

import json
from typing import Annotated

import typer

from epagcl.cli.options import AsJson, Embeddings, TableOut
from epagcl.cli.progress import busy, console_for
from epagcl.cli.rendering import show, table
from epagcl.core.errors import InputError


def neighbours(
    z: Embeddings,
    of: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A node; may be repeated. Default: all nodes, with --out.")
    ] = None,
    k: Annotated[int, typer.Option(min=1, help="Number of neighbours of each node.")] = 10,
    metric: Annotated[str, typer.Option(help="cosine or euclidean.")] = "cosine",
    index: Annotated[
        str, typer.Option(help="exact, or hnsw: approximate and faster for many nodes; its recall is measured.")
    ] = "exact",
    out: TableOut = None,
    as_json: AsJson = False,
) -> None:
    """List the nearest nodes of a node, or of all nodes, in an embedding.

    Example: epagcl neighbours z.npy --of 7 --k 5
    """
    if not of and out is None:
        raise InputError("give a node with --of, or --out for the neighbours of all nodes")
    with busy(console_for(), "searching"):
        from epagcl.runs.reading import read_embeddings
        from epagcl.tasks.inputs import check_table, numbers_of, write_table
        from epagcl.tasks.neighbours import nearest_neighbours, neighbour_table

        check_table(out, z)
        rows, ids = read_embeddings(z)
        nodes = numbers_of(of, ids, "--of") if of else None
        found = nearest_neighbours(rows, k, nodes=nodes, metric=metric, index=index)
        listed = neighbour_table(found, ids, nodes, "cosine" if metric == "cosine" else "distance")
        if out is not None:
            write_table(listed, out)
    if as_json:
        records = listed.to_dict("records") if of else []
        print(json.dumps({"recall": found.recall, "neighbours": records, "file": None if out is None else str(out)}))
        return
    items = [] if not of else [table("node", ">rank", "neighbour", f">{listed.columns[-1]}")]
    for row in listed.itertuples(index=False) if items else ():
        items[0].add_row(str(row[0]), str(row[1]), str(row[2]), f"{row[3]:.4f}")
    show(*items)
    if found.recall is not None:
        show(f"recall against exact search: {found.recall:.4f}")
    if out is not None:
        show(f"written: {out}")
