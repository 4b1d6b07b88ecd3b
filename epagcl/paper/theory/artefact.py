"""Section 3 measured: Theorem 3.3, Theorem 3.5, and the EPR of augmented views."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from epagcl.data.checking import undirected_pairs
from epagcl.paper.artefact import Artefact, Request, Result, load_all
from epagcl.paper.epr import graph_key
from epagcl.paper.study_size import GRAPHS
from epagcl.paper.theory import small_graphs, theorems
from epagcl.paper.theory.figures import figures
from epagcl.paper.theory.reading import reading
from epagcl.paper.theory.tables import AUGMENTATIONS, KINDS, tables
from epagcl.study.code_version import code_version
from epagcl.study.shapes import Shape
from epagcl.study.store import holding

if TYPE_CHECKING:
    from epagcl.study.store import Key, Record
#: Counts of contradictions, with d and with d + 1 under the root.
_COUNTS: Shape = {form: {"within": [float], "between": [float]} for form in ("d", "d1")}
#: The changes of EPR by the views of an augmentation. Shares of nothing are NaN.
_VIEW: Shape = {**{key: [float] for key in ("edge", "node")}, **dict.fromkeys(("changed", "wrong", "alpha"), object)}
#: The shapes of the records.
SMALL_GRAPHS: Shape = {
    "rows": [{"nodes": int, "form": str, **{key: [int] for key in ("all", "paper", "repaired", "degrees")}}]
}
RANDOM_GRAPHS: Shape = {"rows": [{"family": str, "stay": float, "graphs": int, "added": _COUNTS}]}
THEOREM_3_3: Shape = {
    "conditions": {"holds": bool, "d_min": int, "d_max": int},
    **dict.fromkeys(KINDS, _COUNTS),
}
THEOREM_3_5: Shape = {key: {"points": list, **dict.fromkeys(("sign", "pearson", "ratio"), object)} for key in KINDS}
VIEWS: Shape = {
    "epr": {"edge": float, "node": float},
    "views": int,
    "rates": {str(rate): dict.fromkeys(AUGMENTATIONS, _VIEW) for rate in theorems.RATES},
}


def measure(request: Request) -> Result:
    """Measure Theorem 3.3 on small and random graphs, and all of Section 3 on each graph that can be loaded."""
    code = code_version(theorems, small_graphs)

    def stored(what: str, shape: Shape, graph: "Key", compute: "Callable[[], Record]") -> "Record":
        """Return a record from the store without its key, and compute it if it is missing."""
        request.work.say(f"{what} of {graph['name']}")
        record = holding(request.store, shape).remember({"what": what, "graph": graph, "code": code}, compute)
        return {field: value for field, value in record.items() if field != "key"}

    small = stored("theorem-3-3", SMALL_GRAPHS, {"name": "small graphs"}, small_graphs.small_graphs)
    random = stored("theorem-3-3", RANDOM_GRAPHS, {"name": "random graphs"}, theorems.random_graphs)
    result: Result = {
        "small_graphs": small["rows"],
        "random_graphs": random["rows"],
        "graphs": {},
        "absent": {},
    }
    for name, data in load_all(request.datasets, request.root, features=False).items():
        if isinstance(data, str):
            result["absent"][name] = data
            continue
        key, graph = graph_key(name, data), (undirected_pairs(data.edge_index, data.num_nodes), data.y)
        result["graphs"][name] = {
            "edges": graph[0].shape[1],
            "theorem_3_3": stored("theorem-3-3", THEOREM_3_3, key, partial(theorems.theorem_3_3, *graph)),
            "theorem_3_5": stored("theorem-3-5", THEOREM_3_5, key, partial(theorems.theorem_3_5, *graph)),
            "views": stored("view-epr", VIEWS, key, partial(theorems.view_rates, *graph)),
        }
    return result


ARTEFACT = Artefact(
    name="theory",
    title="The theory, measured",
    datasets=(*GRAPHS, "ogbn-arxiv"),
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    runs=1,
)
