"""``epagcl datasets``: the named graphs."""

import json

from epagcl.cli.options import AsJson, Root
from epagcl.cli.rendering import show, table


def datasets(data: Root = None, as_json: AsJson = False) -> None:
    """List the named graphs, their sizes, and where each is loaded from.

    Example: epagcl datasets --data ~/graphs
    """
    from epagcl.data import datasets as list_datasets

    entries = [vars(entry) for entry in list_datasets(data)]
    if as_json:
        print(json.dumps(entries, indent=2))
        return
    listing = table("name", ">nodes", ">edges", ">features", ">classes", "from")
    for entry in entries:
        sizes = ["–" if entry[key] is None else f"{entry[key]:,}" for key in ("nodes", "edges", "features", "classes")]
        listing.add_row(entry["name"], *sizes, entry["source"])
    show(listing)
