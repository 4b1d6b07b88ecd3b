"""``epagcl datasets``: the named graphs."""

import json

from epagcl.cli.options import (
    AsJson,
    Root,
)
from epagcl.cli.rendering import show, table


def datasets(data: Root = None, as_json: AsJson = False) -> None:
    """The named graphs, their sizes, and where each would come from.

    Example: epagcl datasets --data ~/graphs
    """
    from epagcl.data import datasets as listing

    rows = [vars(row) for row in listing(data)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    listing_table = table("name", ">nodes", ">edges", ">features", ">classes", "from")
    for row in rows:
        sizes = ["–" if row[key] is None else f"{row[key]:,}" for key in ("nodes", "edges", "features", "classes")]
        listing_table.add_row(row["name"], *sizes, row["source"])
    show(listing_table)
