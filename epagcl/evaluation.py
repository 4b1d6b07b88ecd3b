"""How good an embedding is: linear evaluation that cannot see test labels, k-nearest neighbours, clustering."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.data.splits import Split, as_splits, class_numbers, random_split, run_seeds
from epagcl.errors import InputError
from epagcl.randomness import Stream, uniform

#: An embedding, a row per node, and the labels, one per node.
Rows = Tensor | np.ndarray | pd.DataFrame | scipy.sparse.sparray | Sequence[Sequence[float]]
Labels = Tensor | np.ndarray | pd.Series | Sequence

PROTOCOLS = ("strict", "paper", "public")


@dataclass(frozen=True)
class Rule:
    """How a protocol fits its softmax regression and what it may choose on validation nodes.

    Attributes:
        decays: strengths of the ℓ2 penalty to choose from, strongest first.
        steps: steps of Adam (learning rate 0.01, full batch).
        every: steps between looks at the validation accuracy.
        rescale: divide z by its root mean square, one number for the whole embedding, so that a learning rate and a
            penalty mean the same whatever the scale a method happens to leave its embedding at.
        random_start: initial weights of ``nn.Linear``; else zero, and the fit is deterministic.
    """

    decays: tuple[float, ...]
    steps: int
    every: int
    rescale: bool
    random_start: bool


STRICT = Rule(decays=(1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001), steps=300, every=20, rescale=True, random_start=False)
PAPER = Rule(decays=(0.0,), steps=3000, every=1, rescale=False, random_start=True)


def spread(runs: list[float]) -> dict[str, Any]:
    """Runs with their mean and standard deviation (of a sample; 0 for one run)."""
    return {"mean": fmean(runs), "std": stdev(runs) if len(runs) > 1 else 0.0, "runs": runs}


@dataclass(frozen=True)
class Evaluation:
    """Test scores of one embedding, a number per run; all between 0 and 1.

    Attributes:
        protocol: strict, paper or public.
        split: the splits in words.
        split_seeds: seed of each random split; empty for given ones.
        runs: accuracy (= micro-F1) of each run.
        macro_f1: macro-F1 of each run.
        chosen: what validation chose in each run: penalty, step and validation accuracy.
        classes: the classes that occur, by number, or by name if the labels were names.
        confusion: test nodes of class r that were taken for class c, summed over runs.
    """

    protocol: str
    split: str
    split_seeds: list[int]
    runs: list[float]
    macro_f1: list[float]
    chosen: list[dict[str, float]]
    classes: list[int] | list[str]
    confusion: list[list[int]]

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return spread(self.runs)["mean"]

    @property
    def std(self) -> float:
        """Standard deviation of the accuracy over runs (of a sample; 0 for one run)."""
        return spread(self.runs)["std"]

    @property
    def micro_f1(self) -> list[float]:
        """Micro-F1 of each run: with one label per node it is the accuracy."""
        return self.runs

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "protocol": self.protocol,
            "split": self.split,
            "split_seeds": self.split_seeds,
            "accuracy": spread(self.runs),
            "macro_f1": spread(self.macro_f1),
            "chosen": self.chosen,
            "classes": self.classes,
            "confusion": self.confusion,
        }


def linear_evaluation(
    z: Rows | Sequence[Rows],
    y: Labels,
    protocol: str = "strict",
    runs: int = 5,
    seed: int | Sequence[int] = 0,
    splits: Split | Sequence[Split] | None = None,
) -> Evaluation:
    """Accuracy of a linear classifier on an embedding.

    * ``strict``: a random 10/10/80 split per seed, the same for every embedding of the graph; penalty and step are
      chosen on validation nodes, ties to the earliest; test nodes are read once.
    * ``paper``: as the paper does: no penalty, 3000 steps, the best validation step, a random 10/10/80 split per run.
    * ``public``: as strict on the dataset's published splits, which ``splits`` must hold; one run each.

    All runs are fitted together, in batched products.

    Args:
        z: embedding ``[N, d]``, or any features, dense or sparse (torch, NumPy, pandas, SciPy, a list of rows); or a
            list of embeddings, one for each run, as the models of several seeds give them: the k-th is scored on the
            k-th split.
        y: class of each node, by number or by name, in the order of z; −1 or missing = none, and the node is left out.
        protocol: which of the above.
        runs: number of splits.
        seed: seed of the first split; run r has seed + r. Or a list, the seed of each run.
        splits: splits (or one) to use in place of random ones.
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol={protocol!r}: choose one of {', '.join(PROTOCOLS)}")
    several, one_seed = _are_several(z), np.ndim(seed) == 0
    embeddings, y, names, splits = _checked(z if several else [z], y, splits)
    runs = len(embeddings) if several else runs if one_seed else len(seed)
    words, seeds = "as given", []
    if splits is None:
        if protocol == "public":
            raise InputError("protocol 'public' needs the published splits: splits=epagcl.data.public_splits(data)")
        words, seeds = "random 10/10/80", _seeds(seed, runs)
        splits = [random_split(y, seed=seed) for seed in seeds]
    starts = seeds or run_seeds(seed, len(splits))
    if several and len(splits) != runs:
        raise InputError(f"{runs} embeddings for {len(splits)} splits; give one embedding, or one for each split")
    if len(starts) != len(splits):
        raise InputError(f"{len(starts)} seeds for {len(splits)} runs; give one seed, or one for each run")
    if protocol == "public":
        words = f"published, {len(set(map(id, splits)))}"
    rule = PAPER if protocol == "paper" else STRICT
    embeddings = [_scaled(one, rule) for one in embeddings]
    if len({one.shape[1] for one in embeddings}) > 1:
        raise InputError("embeddings of different widths; evaluate them one by one")
    classes, y = _classes(y.to(embeddings[0].device))
    results = []
    for group in _groups(_usable(splits, y, ("train", "val", "test")), embeddings[0].shape[1]):
        first = len(results)
        parts = embeddings[first : first + len(group)] if several else embeddings * len(group)
        results += _evaluate_group(parts, y, group, len(classes), rule, starts[first : first + len(group)])
    tables, chosen = (list(column) for column in zip(*results, strict=True))
    return _evaluation(
        protocol, words, seeds, tables, chosen, [names[c] for c in classes] if names else classes.tolist()
    )


def _checked(
    embeddings: Sequence[Rows], y: Labels, splits: Split | Sequence[Split] | None
) -> tuple[list[Tensor], Tensor, list[str] | None, list[Split] | None]:
    """What all scores are computed from: embeddings, class numbers and their names if they have any, splits."""
    embeddings, (y, names) = [_rows(one) for one in embeddings], class_numbers(y)
    if not embeddings:
        raise InputError("z is empty; give at least one embedding")
    for one in embeddings:
        if one.dim() != 2 or one.shape[1] == 0:
            raise InputError(f"embedding of shape {tuple(one.shape)}: it must be nodes × dimensions")
        if one.shape[0] != y.shape[0]:
            raise InputError(f"{one.shape[0]:,} rows for {y.shape[0]:,} labels; give one of each per node")
    return embeddings, y, names, None if splits is None else as_splits(splits, len(y))


def _are_several(z: Any) -> bool:
    """Whether z is a list of embeddings; a list of lists of numbers is one, row by row."""
    if not isinstance(z, list | tuple):
        return False
    first = z[0] if z else None
    return not (isinstance(first, list | tuple) and not any(isinstance(value, list | tuple) for value in first))


def _rows(z: Any) -> Tensor:
    """An embedding as a tensor of any type and layout."""
    if isinstance(z, Tensor):
        return z
    try:
        array = z.toarray() if scipy.sparse.issparse(z) else np.asarray(z)
        if array.dtype.kind == "O" and not any(isinstance(value, str) for value in array.flat):
            array = array.astype(np.float64)  # columns of several types
    except (TypeError, ValueError):
        raise InputError("z: not a table of numbers; give rows of equal length, numbers alone") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"z: values of type {array.dtype}; give numbers")
    as_is = array.flags.writeable and min(array.strides, default=0) >= 0  # pandas locks its arrays
    return torch.as_tensor(array if as_is else array.copy(order="K"))


def _seeds(seed: int | Sequence[int], runs: int) -> list[int]:
    """The seeds of random splits."""
    seeds = run_seeds(seed, runs)
    if not seeds:
        raise InputError(f"runs={runs}: at least 1")
    return seeds


def _evaluate_group(
    embeddings: Sequence[Tensor], y: Tensor, splits: list[Split], num_classes: int, rule: Rule, seeds: list[int]
) -> list[tuple[Tensor, dict[str, float]]]:
    """Fit and choose on training and validation nodes of all runs together; then each run's confusion on test nodes."""

    def rows(part: str) -> tuple[Tensor, Tensor]:
        nodes = [getattr(split, part).to(y.device) for split in splits]
        z = torch.stack([one[node] for one, node in zip(embeddings, nodes, strict=True)])
        return z, torch.stack([y[node] for node in nodes])

    # What chooses receives training and validation nodes alone: it cannot depend on a test label.
    weight, bias, chosen = _fit(*rows("train"), *rows("val"), num_classes, rule, seeds)
    results = []
    for run, (z, split) in enumerate(zip(embeddings, splits, strict=True)):
        test = split.test.to(y.device)
        prediction = (z[test] @ weight[run] + bias[run]).argmax(1)
        results.append((_confusion(prediction, y[test], num_classes), chosen[run]))
    return results


def prediction_evaluation(prediction: Tensor, y: Tensor, split: Split, protocol: str, seed: int) -> Evaluation:
    """Test scores of a classifier that was trained on a split, such as a supervised method: nothing is fitted here."""
    classes, truth = _classes(torch.as_tensor(y).cpu())
    test = _labelled(split, truth).test
    predicted = torch.searchsorted(classes, prediction.cpu()[test].contiguous()).clamp(max=len(classes) - 1)
    words, seeds = ("published", []) if protocol == "public" else ("random 10/10/80", [seed])
    table = _confusion(predicted, truth[test], len(classes))
    return _evaluation(protocol, words, seeds, [table], [], classes.tolist())


def _usable(splits: Sequence[Split], y: Tensor, needed: Sequence[str]) -> list[Split]:
    """Splits without the nodes that have no label, of which no part that is needed may then be empty."""
    labelled = [_labelled(split, y) for split in splits]
    for k, split in enumerate(labelled):
        if empty := [part for part in needed if getattr(split, part).numel() == 0]:
            raise InputError(f"splits[{k}].{empty[0]}: no labelled nodes; give at least one")
    return labelled


def _labelled(split: Split, y: Tensor) -> Split:
    """A split without the nodes that have no label."""
    parts = (part.to(y.device) for part in (split.train, split.val, split.test))
    return Split(*(part[y[part] >= 0] for part in parts))


def _fit(
    z: Tensor, y: Tensor, z_val: Tensor, y_val: Tensor, num_classes: int, rule: Rule, seeds: list[int]
) -> tuple[Tensor, Tensor, list[dict[str, float]]]:
    """Softmax regressions for R runs × L penalties at once; of each run, the (penalty, step) best on validation.

    min_W  mean_i CE(softmax(z_i W + b), y_i) + λ/2 ‖W‖², by Adam. The L penalties of a run stand side by side as
    columns of one weight matrix, so that a step is two batched products.

    Args:
        z: training rows ``[R, n, d]``, and ``y`` their classes ``[R, n]``.
        z_val: validation rows ``[R, n', d]``, and ``y_val`` their classes.
        num_classes: C.
        rule: the protocol's.
        seeds: of the random initial weights of each run.

    Returns:
        weights ``[R, d, C]``, biases ``[R, C]`` and what was chosen.
    """
    runs, n, d = z.shape
    columns = len(rule.decays) * num_classes
    decay = z.new_tensor(rule.decays).repeat_interleave(num_classes)
    weight, bias = z.new_zeros(runs, d, columns), z.new_zeros(runs, 1, columns)
    if rule.random_start:
        for run in range(runs):
            weight[run], bias[run] = (_linear_start(p[run], d, seeds[run], k) for k, p in enumerate((weight, bias)))
    target = F.one_hot(y, num_classes).to(z.dtype)[:, :, None]

    def by_penalty(t: Tensor) -> Tensor:
        return t.unflatten(2, (len(rule.decays), num_classes))

    best = z.new_full((runs, len(rule.decays)), -1.0)
    best_step = torch.zeros_like(best)
    best_weight, best_bias = weight.clone(), bias.clone()
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in (weight, bias)]
    for step in range(1, rule.steps + 1):
        error = by_penalty(torch.baddbmm(bias, z, weight)).softmax(3).sub_(target).div_(n).flatten(2)
        gradients = torch.bmm(z.transpose(1, 2), error).addcmul_(weight, decay), error.sum(1, keepdim=True)
        for parameter, gradient, (m, v) in zip((weight, bias), gradients, moments, strict=True):
            m.lerp_(gradient, 0.1)
            v.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            scale = (v / (1 - 0.999**step)).sqrt_().add_(1e-8)
            parameter.addcdiv_(m, scale, value=-0.01 / (1 - 0.9**step))
        if step % rule.every == 0:
            hit = by_penalty(torch.baddbmm(bias, z_val, weight)).argmax(3) == y_val[:, :, None]
            accuracy = hit.to(z.dtype).mean(1)
            better = accuracy > best  # strictly: ties go to the earliest step
            best, best_step = torch.where(better, accuracy, best), torch.where(better, step, best_step)
            better = better.repeat_interleave(num_classes, 1)[:, None]
            torch.where(better, weight, best_weight, out=best_weight)
            torch.where(better, bias, best_bias, out=best_bias)

    run = torch.arange(runs, device=z.device)
    winner = best.argmax(1)  # ties: the first, which is the strongest penalty
    chosen = [
        {"decay": rule.decays[k], "step": int(best_step[r, k]), "validation_accuracy": float(best[r, k])}
        for r, k in enumerate(winner.tolist())
    ]
    return by_penalty(best_weight)[run, :, winner], by_penalty(best_bias)[run, 0, winner], chosen


def _linear_start(parameter: Tensor, d: int, seed: int, which: int) -> Tensor:
    """nn.Linear's initial values, uniform in ±1/√d."""
    counter = torch.arange(parameter.numel(), device=parameter.device)
    u = uniform(counter, seed, Stream.CLASSIFIER, which).to(parameter.dtype)
    return ((2 * u - 1) / d**0.5).view_as(parameter)


def knn_accuracy(
    z: Rows,
    y: Labels,
    runs: int = 5,
    seed: int | Sequence[int] = 0,
    splits: Split | Sequence[Split] | None = None,
) -> list[float]:
    """Accuracy of cosine k-nearest neighbours on the strict splits, k of 1, 3, 5, 10, 20 chosen on validation."""
    (z,), y, _, splits = _checked([z], y, splits)
    z = F.normalize(_scaled(z, STRICT), dim=1)
    classes, y = _classes(y.to(z.device))
    splits = [random_split(y, seed=one) for one in _seeds(seed, runs)] if splits is None else splits
    results = []
    for split in _usable(splits, y, ("train", "test")):
        train, val, test = split.train, split.val, split.test

        ks = [k for k in (1, 3, 5, 10, 20) if k <= train.numel()]
        nearest = [
            y[train][torch.cat([(part @ z[train].T).topk(ks[-1]).indices for part in z[nodes].split(4096)])]
            for nodes in (val, test)
        ]
        hits = [
            [F.one_hot(labels[:, :k], len(classes)).sum(1).argmax(1) == y[nodes] for k in ks]
            for labels, nodes in zip(nearest, (val, test), strict=True)
        ]
        best = max(range(len(ks)), key=lambda k: hits[0][k].sum().item())
        results.append(hits[1][best].float().mean().item())
    return results


def clustering(z: Rows, y: Labels, seed: int = 0) -> dict[str, float]:
    """k-means on unit rows with as many clusters as classes: NMI and ARI against the classes."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    (z,), y, _, _ = _checked([z], y, None)
    labelled = (y >= 0).cpu()
    if not labelled.any():
        raise InputError("y: no node has a label; clusters are compared with the classes of at least one")
    truth = y.cpu()[labelled].numpy()
    rows = F.normalize(_scaled(z, STRICT), dim=1).cpu()[labelled].numpy()
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # equal rows make fewer clusters
        clusters = KMeans(len(set(truth.tolist())), n_init=5, random_state=run_seeds(seed)[0] % 2**32).fit_predict(rows)
    return {
        "nmi": float(normalized_mutual_info_score(truth, clusters)),
        "ari": float(adjusted_rand_score(truth, clusters)),
    }


def _scaled(z: Tensor, rule: Rule) -> Tensor:
    z = (z if z.layout == torch.strided else z.to_dense()).detach().float()
    if not torch.isfinite(z).all():
        raise InputError("the embedding has NaN or infinite values; train again with a lower lr")
    rms = z.square().mean().sqrt()
    return z / rms if rule.rescale and rms > 0 else z


def _classes(y: Tensor) -> tuple[Tensor, Tensor]:
    """The classes that occur, and the labels numbered 0..C−1 (−1 stays)."""
    classes = y[y >= 0].unique()
    if classes.numel() < 2:
        raise InputError(f"{classes.numel()} class among the labels; evaluation needs at least 2")
    return classes, torch.where(y >= 0, torch.searchsorted(classes, y), -1)


def _groups(splits: Sequence[Split], d: int) -> list[list[Split]]:
    """Splits of equal part sizes side by side, in groups whose gathered rows take at most 1 GiB; order is kept."""
    most = max(1, 2**28 // (d * max(split.train.numel() + split.val.numel() for split in splits)))
    groups: list[list[Split]] = []
    for split in splits:
        size = split.train.numel(), split.val.numel()
        last = groups[-1] if groups else []
        if last and len(last) < most and (last[0].train.numel(), last[0].val.numel()) == size:
            last.append(split)
        else:
            groups.append([split])
    return groups


def _confusion(prediction: Tensor, truth: Tensor, num_classes: int) -> Tensor:
    """Nodes of class r that were taken for class c, ``[C, C]``."""
    table = torch.bincount(truth * num_classes + prediction, minlength=num_classes**2).cpu()
    return table.view(num_classes, num_classes)


def _evaluation(
    protocol: str,
    split: str,
    seeds: list[int],
    tables: list[Tensor],
    chosen: list[dict[str, float]],
    classes: list[int] | list[str],
) -> Evaluation:
    """Of each run's confusion: accuracy, and macro-F1 over the classes that occur in truth or prediction."""
    accuracy, macro_f1 = [], []
    for table in tables:
        f1 = class_scores(table)["f1"]
        accuracy.append(float(table.diag().sum().double() / table.sum()))
        macro_f1.append(float(f1[~f1.isnan()].mean()))
    total = torch.stack(tables).sum(0).tolist()
    return Evaluation(protocol, split, seeds, accuracy, macro_f1, chosen, classes, total)


def class_scores(confusion: Tensor | Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Of each class: precision TP/(TP+FP), recall TP/(TP+FN), F1 = 2·TP/(2·TP+FP+FN) and its nodes; NaN for 0/0."""
    table = torch.as_tensor(confusion).double()
    hits, taken, nodes = table.diag(), table.sum(0), table.sum(1)
    return {"precision": hits / taken, "recall": hits / nodes, "f1": 2 * hits / (taken + nodes), "support": nodes}
