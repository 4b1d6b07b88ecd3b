"""How good an embedding is: linear evaluation that cannot see test labels, k-nearest neighbours, clustering."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, uniform
from epagcl.data.splits import Split, random_split, run_seeds
from epagcl.evaluation.inputs import (
    Labels,
    Rows,
    are_several,
    checked_inputs,
    number_classes,
    scaled,
    split_seeds_of,
    usable_splits,
)
from epagcl.evaluation.protocol import PAPER, PROTOCOLS, STRICT, Rule
from epagcl.evaluation.scores import Evaluation, confusion_matrix, evaluation_of


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
    several, one_seed = are_several(z), np.ndim(seed) == 0
    embeddings, y, names, splits = checked_inputs(z if several else [z], y, splits)
    runs = len(embeddings) if several else runs if one_seed else len(seed)
    words, seeds = "as given", []
    if splits is None:
        if protocol == "public":
            raise InputError("protocol 'public' needs the published splits: splits=epagcl.data.public_splits(data)")
        words, seeds = "random 10/10/80", split_seeds_of(seed, runs)
        splits = [random_split(y, seed=seed) for seed in seeds]
    starts = seeds or run_seeds(seed, len(splits))
    if several and len(splits) != runs:
        raise InputError(f"{runs} embeddings for {len(splits)} splits; give one embedding, or one for each split")
    if len(starts) != len(splits):
        raise InputError(f"{len(starts)} seeds for {len(splits)} runs; give one seed, or one for each run")
    if protocol == "public":
        words = f"published, {len(set(map(id, splits)))}"
    rule = PAPER if protocol == "paper" else STRICT
    embeddings = [scaled(one, rule) for one in embeddings]
    if len({one.shape[1] for one in embeddings}) > 1:
        raise InputError("embeddings of different widths; evaluate them one by one")
    classes, y = number_classes(y.to(embeddings[0].device))
    results = []
    for group in _groups(usable_splits(splits, y, ("train", "val", "test")), embeddings[0].shape[1]):
        first = len(results)
        parts = embeddings[first : first + len(group)] if several else embeddings * len(group)
        results += _evaluate_group(parts, y, group, len(classes), rule, starts[first : first + len(group)])
    tables, chosen = (list(column) for column in zip(*results, strict=True))
    return evaluation_of(
        protocol, words, seeds, tables, chosen, [names[c] for c in classes] if names else classes.tolist()
    )


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
        results.append((confusion_matrix(prediction, y[test], num_classes), chosen[run]))
    return results


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
