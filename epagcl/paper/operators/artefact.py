"""Does the error passing rate of an operator predict which operator wins? Accuracy and EPR of operators on all graphs.

Each operator propagates the feature rows at unit length, which are then reduced to 256 principal components. There is
no training, so that the accuracies differ by the operator only.
"""

from functools import partial
from typing import TYPE_CHECKING

from epagcl.core.hardware import resolve_device
from epagcl.data import splits
from epagcl.data.graph import Graph
from epagcl.epr.operators import chance_epr
from epagcl.evaluation import linear
from epagcl.evaluation.linear import linear_evaluation
from epagcl.nn.propagation import PropagatedPCA
from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.operators.reading import reading
from epagcl.paper.operators.tables import figures, tables
from epagcl.paper.study_size import GRAPHS, MANY, seeds_of
from epagcl.runs import operators
from epagcl.runs.operators import OPERATORS, operator_report
from epagcl.runs.record import provenance
from epagcl.study.code_version import code_version
from epagcl.study.design import fingerprint
from epagcl.study.jobs import Job
from epagcl.study.shapes import Shape

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from epagcl.study.store import Record

DIM = 256
#: What a result keeps of the record of a graph.
FIELDS = ("nodes", "edges", "classes", "chance", "structure", "operators", "device")
#: The values of each operator beside its accuracies.
MEASURED = ("per_node", "per_edge", "relative", "estimate", "messages", "gain", "estimated_gain")
#: The shape of the record of a graph.
RECORD: Shape = {
    **dict.fromkeys(("nodes", "edges", "classes"), int),
    "chance": float,
    "structure": (float, None),
    "operators": {name: {"accuracy": [float], **dict.fromkeys(MEASURED, (float, None))} for name in OPERATORS},
    "device": str,
}


def measure(request: Request) -> Result:
    """Measure the EPR and the accuracy of every operator on each graph that can be loaded."""
    records = request.records_of([_job(request, name, data) for name, data in request.graphs.items()])
    graphs = {
        name: {field: record[field] for field in record if field in FIELDS}
        for name, record in zip(request.graphs, records, strict=True)
        if record is not None
    }
    request.require(graphs)
    return {"graphs": graphs, "absent": request.absent}


def _job(request: Request, name: str, data: "Data") -> Job:
    runs = min(request.runs, seeds_of(name))
    key = {
        "what": "operators",
        "graph": {"name": name, "fingerprint": fingerprint(data)},
        "runs": runs,
        "code": code_version(operators, linear, splits, PropagatedPCA, observe),
    }
    compute = partial(observe, request, name, data, runs)
    return Job(f"operators on {name}", key, compute, float(data.num_nodes), RECORD)


def observe(request: Request, name: str, data: "Data", runs: int) -> "Record":
    """Return the EPR of every operator on a graph, and the strict accuracy of its features on random splits."""
    request.work.say(f"operators on {name}")
    device = resolve_device(request.device)
    report = operator_report(data, device=device)
    graph = Graph.from_data(data, device)
    rows = {}
    for row in report.rows:
        model = PropagatedPCA(graph.num_features, DIM, OPERATORS[row.name]).to(device)
        model.fit(graph)
        accuracy = linear_evaluation(model(graph), data.y, "strict", runs=runs).runs
        rows[row.name] = {**row.to_dict(), "accuracy": accuracy}
    return {
        "nodes": graph.num_nodes,
        "edges": graph.pairs.shape[1],
        "classes": int(data.y[data.y >= 0].unique().numel()),
        "chance": chance_epr(data.y),
        "structure": report.structure,
        "operators": rows,
        "device": provenance(request.device)["hardware"]["device"],
    }


ARTEFACT = Artefact(
    name="operators",
    title="Error passing rates of operators",
    datasets=GRAPHS,
    measure=measure,
    tables=tables,
    figures=figures,
    reading=reading,
    runs=MANY,
    protocols=("strict",),
)
