"""A growing graph: the shift of old nodes under an old model, beside what the old model loses against a new one."""

from collections.abc import Iterator
from itertools import product
from statistics import fmean
from typing import Any, TypedDict

import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from epagcl.data.generators import block_model
from epagcl.evaluation.linear import linear_evaluation
from epagcl.methods.epagcl_plus import EPAGCLPlus
from epagcl.paper.tables import Table, markdown
from epagcl.runs.record import Provenance, provenance
from epagcl.tasks.versions import MOVED, NOVEL, drift

OLD = 800  # nodes of yesterday's graph, all of the first half of the classes
GROWTH = (0.1, 0.25, 0.5, 1.0, 2.0)  # new nodes, relative to the old ones
NEW_CLASSES = (0.0, 0.5, 1.0)  # share of the new nodes whose class did not exist yesterday
CLASSES = 6
SETTINGS: dict[str, Any] = {"epochs": 20, "hidden": 64, "projection": 64, "members": 1, "dim": 64, "device": "cpu"}
SPLITS = 5
SEEDS = (0, 1)  # the thresholds were chosen on seed 0
LOST = 2.0  # points of accuracy that are worth a training


class Row(TypedDict):
    """One grown graph."""

    seed: int
    growth: float
    new_classes: float
    novelty: float
    median: float
    p95: float
    changed_neighbours: float | None
    old_accuracy: float
    new_accuracy: float


class Result(Provenance):
    """The content of ``drift.json``."""

    command: str
    settings: dict[str, Any]
    old_nodes: int
    rows: list[Row]


def grown(
    growth: tuple[float, ...] = GROWTH,
    new_classes: tuple[float, ...] = NEW_CLASSES,
    seeds: tuple[int, ...] = SEEDS,
    old_nodes: int = OLD,
    **settings: Any,
) -> Result:
    """Embed grown graphs by the model of yesterday's graph and by a new one.

    Args:
        growth: numbers of new nodes, relative to the old ones.
        new_classes: shares of the new nodes that belong to new classes.
        seeds: seeds of the generated graphs.
        old_nodes: nodes of yesterday's graph.
        settings: settings of EPAGCL+ in place of those of the benchmark.
    """
    used = {**SETTINGS, **settings}
    return {
        **provenance("cpu"),
        "command": "python -m benchmarks drift",
        "settings": used,
        "old_nodes": old_nodes,
        "rows": [row for seed in seeds for row in _rows(seed, growth, new_classes, old_nodes, used)],
    }


def _rows(
    seed: int, growth: tuple[float, ...], new_classes: tuple[float, ...], old_nodes: int, settings: dict[str, Any]
) -> Iterator[Row]:
    """Yield the rows of one generated graph."""
    size = int(old_nodes * (1 + max(growth)) * 2) + 2 * CLASSES
    whole = block_model(size, num_classes=CLASSES, average_degree=12, num_features=300, topic_words=40, seed=seed)
    familiar = (whole.y < CLASSES // 2).nonzero().flatten()
    novel = (whole.y >= CLASSES // 2).nonzero().flatten()
    yesterday = familiar[:old_nodes]
    model = EPAGCLPlus(**settings).fit(_part(whole, yesterday))
    before = model.embed(_part(whole, yesterday))
    for share, factor in product(new_classes, growth):
        new = round(factor * old_nodes)
        fresh = round(share * new)
        today = _part(whole, torch.cat([yesterday, familiar[old_nodes : old_nodes + new - fresh], novel[:fresh]]))
        z = model.embed(today)
        moved = drift(z, before, data=today)
        again = EPAGCLPlus(**settings).fit_embed(today)
        row: Row = {
            "seed": seed,
            "growth": factor,
            "new_classes": share,
            "novelty": moved.novelty or 0.0,
            "median": moved.median,
            "p95": moved.p95,
            "changed_neighbours": moved.changed_neighbours,
            "old_accuracy": 100 * linear_evaluation(z, today.y, runs=SPLITS).mean,
            "new_accuracy": 100 * linear_evaluation(again, today.y, runs=SPLITS).mean,
        }
        print(row, flush=True)
        yield row


def table(result: Result) -> str:
    """Return a table of all grown graphs, with the agreement of the thresholds and the lost accuracy in a note."""
    rows = []
    for row in sorted(result["rows"], key=lambda row: row["novelty"]):
        changed = row["changed_neighbours"]
        rows.append(
            [
                f"{100 * row['growth']:.0f}%",
                f"{100 * row['new_classes']:.0f}%",
                f"{100 * row['novelty']:.0f}%",
                f"{100 * row['median']:.0f}%",
                "–" if changed is None else f"{100 * changed:.0f}%",
                f"{row['old_accuracy']:.1f}",
                f"{row['new_accuracy']:.1f}",
            ]
        )
    heads = ["growth", "of new classes", "novelty", "median shift", "changed neighbours", "old model", "new model"]
    lost = [row["new_accuracy"] - row["old_accuracy"] for row in result["rows"]]
    rho = [float(spearmanr([row[key] for row in result["rows"]], lost).statistic) for key in ("novelty", "median")]
    seeds = dict.fromkeys(row["seed"] for row in result["rows"])
    called = [row["novelty"] > NOVEL or row["median"] > MOVED for row in result["rows"]]
    note = (
        "Growth: new nodes relative to the old ones. Of new classes: share of the new nodes whose class did not exist "
        "when the model was trained. Accuracies in percent over all nodes of the grown graph. Spearman's correlation "
        f"with the lost accuracy: novelty {rho[0]:.2f}, median shift {rho[1]:.2f}. {_losses(lost, called)} EPAGCL+ "
        f"({result['settings']['epochs']} epochs) on generated graphs of {result['old_nodes']:,} nodes, "
        f"{result['date'][:10]}. Seeds: {', '.join(map(str, seeds))}; the thresholds were chosen on seed 0."
    )
    return markdown(Table("", "An old model on a growing graph", heads, rows, note.replace(" -", " −")))


def _losses(lost: list[float], called: list[bool]) -> str:
    """Return a sentence on the graphs on which the advice is to train again, and one on the others."""
    sentences = []
    for advice, text in ((True, "is to train again"), (False, "is to keep the model")):
        losses = [loss for loss, call in zip(lost, called, strict=True) if call is advice]
        if losses:
            worth = sum(loss >= LOST for loss in losses)
            sentences.append(
                f"Where the advice {text}, the old model loses {fmean(losses):.1f} points on average, and at least "
                f"{LOST:g} on {worth} of {len(losses)} graphs."
            )
    return " ".join(sentences)


def _part(data: Data, nodes: Tensor) -> Data:
    """Return the graph of some nodes, in this order, and the edges between them."""
    number = torch.full((data.num_nodes,), -1)
    number[nodes] = torch.arange(nodes.numel())
    edge_index, _ = subgraph(nodes, data.edge_index, num_nodes=data.num_nodes)
    return Data(x=data.x.to_dense()[nodes], edge_index=number[edge_index], y=data.y[nodes])
