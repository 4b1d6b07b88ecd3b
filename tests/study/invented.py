"""Results of a comparison without any training."""

from epagcl.evaluation.scores import spread
from epagcl.study.comparison import CellResult


def invented(accuracies: dict[str, dict[str, list[float]]], seconds: float = 2.0) -> dict[str, list[CellResult]]:
    """Return the results of rows by their accuracies: of each row, by graph, in percent, one for each seed."""
    graphs = list(dict.fromkeys(graph for row in accuracies.values() for graph in row))
    return {
        graph: [_cell(row, graph, runs[graph], seconds) for row, runs in accuracies.items() if graph in runs]
        for graph in graphs
    }


def _cell(row: str, graph: str, runs: list[float], seconds: float) -> CellResult:
    seeds, scores = list(range(len(runs))), spread([run / 100 for run in runs])
    trained = row not in ("raw features", "propagated")
    epochs = 0 if row.startswith("untrained") else 9
    return {
        "row": row,
        "graph": {"name": graph, "nodes": 100, "edges": 200, "features": 10, "classes": 3, "fingerprint": "0"},
        "named": False,
        "source": "defaults" if trained else None,
        "settings": {},
        "seeds": seeds,
        "code": "0" * 12,
        "hardware": ["GPU"],
        "dates": ["2026-01-01"],
        "commits": ["abc"],
        "training": {"epochs": [epochs] * len(seeds), "seconds": [seconds] * len(seeds)} if trained else None,
        "protocols": {
            "strict": {
                "protocol": "strict",
                "split": "random 10/10/80",
                "seeds": seeds,
                "accuracy": scores,
                "macro_f1": scores,
            }
        },
    }
