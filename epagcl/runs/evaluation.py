"""The evaluation of a run: which protocol, on which splits, against which references, and over several seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.hardware import resolve_device
from epagcl.data.splits import Split, published_splits, random_split
from epagcl.distributed.group import active_ranks
from epagcl.evaluation.clusters import clustering
from epagcl.evaluation.knn import knn_accuracy
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.scores import ScoresDict, spread
from epagcl.methods.base import Method
from epagcl.methods.epagcl import EPAGCL
from epagcl.methods.propagated import Propagated
from epagcl.report.metrics import untrained_name

RAW, UNTRAINED, PROPAGATED = "raw features", "untrained encoder", Propagated.title
#: The rows that every table has for comparison, in their order.
REFERENCES = (RAW, UNTRAINED, PROPAGATED)


@dataclass(frozen=True)
class Plan:
    """How to evaluate a run.

    Attributes:
        protocol: strict, paper or public.
        runs: number of random splits per model. With several seeds, each seed has one split.
        references: also score raw features, the untrained encoder and propagated features.

    Examples:
        >>> Plan(references=True)
        Plan(protocol='strict', runs=5, references=True)
    """

    protocol: str = "strict"
    runs: int = 5
    references: bool = False


def evaluate(
    z: Tensor,
    data: Data,
    plan: Plan,
    *,
    seed: int,
    device: str = "auto",
    companions: bool = True,
    splits: Sequence[Split] | None = None,
) -> ScoresDict:
    """Return the scores of an embedding under the plan's protocol.

    Args:
        z: the embedding, or any other features of the nodes.
        data: the graph with its labels.
        plan: the protocol and the number of random splits.
        seed: seed of the first random split.
        device: where to compute.
        companions: also score k-nearest neighbours and clustering.
        splits: splits to use in place of random or published ones.

    Examples:
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
        >>> scores = evaluate(data.x, data, Plan(runs=1), seed=0, device="cpu", companions=False)
        >>> scores["split"], scores["split_seeds"], len(scores["accuracy"]["runs"])
        ('random 10/10/80', [0], 1)
    """
    z, y = z.to(resolve_device(device)), data.y
    if splits is None and plan.protocol == "public":
        splits = published_splits(data)
    scores = linear_evaluation(z, y, plan.protocol, plan.runs, seed, splits).to_dict()
    if companions:
        scores["knn_accuracy"] = spread(knn_accuracy(z, y, plan.runs, seed, splits))
        scores["clustering"] = clustering(z, y, seed)
    return scores


def references(data: Data, method: Method, plan: Plan, splits: Sequence[Split] | None = None) -> dict[str, ScoresDict]:
    """Return the scores to compare an accuracy with: raw features, the untrained encoder, propagated features.

    The untrained encoder is the method's own. A supervised method has no encoder separate from its classifier, so the
    encoder of EPAGCL takes its place. A method without training has no untrained encoder. If a method adds to its
    encoder what it computes without training (:meth:`~epagcl.methods.Method.calibrate`), as EPAGCL+ adds propagated
    features, the untrained method has these too; its row is named after the method. Propagated features are
    :class:`~epagcl.methods.propagated.Propagated` with its default settings.

    Args:
        data: the graph with its labels.
        method: the method whose encoder is scored before training.
        plan: the protocol and the number of random splits.
        splits: splits to use in place of random or published ones.

    Examples:
        >>> from epagcl import EPAGCL
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
        >>> method = EPAGCL(hidden=8, dim=4, projection=4, device="cpu")
        >>> list(references(data, method, Plan(runs=1)))
        ['raw features', 'untrained encoder', 'propagated']
    """
    ranks = active_ranks()
    options: dict[str, Any] = {"seed": method.seed, "device": method.device, "splits": splits}
    scores = {}
    for name, z in _reference_embeddings(data, method):
        if ranks is None or ranks.is_first:  # all ranks share the embedding, rank 0 scores it
            scores[name] = evaluate(z, data, plan, companions=False, **options)
    return scores


def _reference_embeddings(data: Data, method: Method) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the embedding of each reference, so that only one is in memory."""
    yield RAW, data.x
    shared: dict[str, Any] = {"seed": method.seed, "device": method.device}
    if type(method).trained:
        cls, settings = (EPAGCL, {}) if method.supervised else (type(method), method.get_params())
        name = UNTRAINED if cls.calibrate is Method.calibrate else untrained_name(cls.title)
        yield name, cls(**{**settings, **shared, "epochs": 0}).fit_embed(data)
    if not isinstance(method, Propagated):
        yield PROPAGATED, Propagated(**shared).fit_embed(data)


def split_of(data: Data, protocol: str, seed: int) -> Split:
    """Return the split on which a supervised method with this seed is trained.

    Args:
        data: the graph with its labels.
        protocol: strict, paper or public. Under ``public`` the seed selects one of the published splits.
        seed: seed of the method.

    Examples:
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
        >>> split = split_of(data, "strict", seed=0)
        >>> len(split.train), len(split.val), len(split.test)
        (6, 6, 48)
    """
    if protocol != "public":
        return random_split(data.y, seed=seed)
    splits = published_splits(data)
    return splits[seed % len(splits)]


def unfit_labels(data: Data, plan: Plan) -> str | None:
    """Return why a graph's labels cannot be evaluated, or None if they can or if there are none.

    Call it before training, so that a long run does not fail at its evaluation.

    Examples:
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
        >>> unfit_labels(data, Plan()) is None
        True
        >>> data.y = data.y * 0
        >>> unfit_labels(data, Plan())
        '1 class among the labels; evaluation needs at least 2'
    """
    if data.y is None:
        return None
    try:
        if plan.protocol == "public":
            published_splits(data)
        else:
            random_split(data.y)
        if (classes := data.y[data.y >= 0].unique().numel()) < 2:
            return f"{classes} class among the labels; evaluation needs at least 2"
    except InputError as error:
        return str(error)
    return None


def merge(results: Sequence[ScoresDict]) -> ScoresDict:
    """Return the scores of several seeds as one: runs concatenated, confusion matrices added, clustering averaged.

    Examples:
        >>> from epagcl.evaluation.scores import spread
        >>> def scores(seed, accuracy):
        ...     head = {"protocol": "strict", "split": "random 10/10/80", "split_seeds": [seed], "classes": [0, 1]}
        ...     return head | {"accuracy": spread([accuracy]), "macro_f1": spread([0.5]), "confusion": [[2, 1], [0, 3]]}
        >>> merged = merge([scores(0, 0.5), scores(1, 0.75)])
        >>> merged["accuracy"]["mean"], merged["split_seeds"], merged["confusion"]
        (0.625, [0, 1], [[4, 2], [0, 6]])
    """
    first = results[0]

    def pooled(key: Literal["accuracy", "macro_f1", "knn_accuracy"]) -> list[float]:
        return [value for result in results for value in result[key]["runs"]]

    merged: ScoresDict = {
        "protocol": first["protocol"],
        "split": first["split"],
        "classes": first["classes"],
        "confusion": torch.tensor([result["confusion"] for result in results]).sum(0).tolist(),
        "split_seeds": [seed for result in results for seed in result["split_seeds"]],
        "accuracy": spread(pooled("accuracy")),
        "macro_f1": spread(pooled("macro_f1")),
    }
    if "knn_accuracy" in first:
        merged["knn_accuracy"] = spread(pooled("knn_accuracy"))
    if "clustering" in first:
        merged["clustering"] = {
            key: fmean(result["clustering"][key] for result in results) for key in first["clustering"]
        }
    return merged
