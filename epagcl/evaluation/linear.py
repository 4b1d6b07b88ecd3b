"""Linear evaluation: the test accuracy of a softmax regression on an embedding."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.adam import adam

from epagcl.core.cuda_graphs import repeat
from epagcl.core.errors import InputError
from epagcl.core.randomness import Stream, uniform
from epagcl.data.labels import Labels
from epagcl.data.splits import PARTS, Split, random_split, seed_list
from epagcl.evaluation.inputs import (
    EmbeddingLike,
    Inputs,
    check_inputs,
    is_list_of_embeddings,
    labelled_splits,
    renumber_classes,
    scale_embedding,
    split_seeds,
)
from epagcl.evaluation.protocol import PROTOCOLS, Rule, rule_of
from epagcl.evaluation.scores import Choice, Evaluation, confusion_matrix, evaluation_of_tables


def linear_evaluation(
    z: EmbeddingLike | Sequence[EmbeddingLike],
    y: Labels,
    protocol: str = "strict",
    runs: int = 5,
    seed: int | Sequence[int] = 0,
    splits: Split | Sequence[Split] | None = None,
) -> Evaluation:
    """Return the test accuracy of a linear classifier on an embedding.

    * ``strict``: one random 10/10/80 split per seed, the same for every embedding of the graph. Penalty and step are
      chosen on validation nodes, and the earliest wins a tie. Test nodes are evaluated once.
    * ``paper``: the protocol of the paper: no penalty, 3000 steps, the best validation step, one random 10/10/80 split
      per run.
    * ``public``: like strict, on the published splits of the dataset, which ``splits`` must hold; one run per split.

    All runs are fitted together with batched matrix products.

    Args:
        z: embedding ``[N, d]`` or any features, dense or sparse (torch, NumPy, pandas, SciPy, a list of rows). Or a
            list of embeddings, one per run, such as the embeddings of several seeds. The k-th is scored on the k-th
            split.
        y: class of each node, as a number or a name, in the order of z. Nodes with −1 or a missing label are left out.
        protocol: strict, paper or public.
        runs: number of splits.
        seed: seed of the first split; run r has seed + r. A list gives the seed of each run.
        splits: one or several splits to use in place of random ones.

    Examples:
        >>> result = linear_evaluation(torch.eye(2).repeat(30, 1), [0, 1] * 30, runs=2)
        >>> result.mean, result.std
        (1.0, 0.0)
    """
    if protocol not in PROTOCOLS:
        raise InputError(f"protocol={protocol!r}: choose one of {', '.join(PROTOCOLS)}")
    several = is_list_of_embeddings(z)
    inputs = check_inputs(cast("Sequence[EmbeddingLike]", z if several else [z]), y, splits)
    if several:
        runs = len(inputs.embeddings)
    elif np.ndim(seed) > 0:
        runs = len(cast("Sequence[int]", seed))
    plan = _plan_runs(inputs, protocol, runs, seed)
    if several and len(plan.splits) != runs:
        raise InputError(f"{runs} embeddings for {len(plan.splits)} splits; give one embedding, or one for each split")
    if len(plan.start_seeds) != len(plan.splits):
        counts = f"{len(plan.start_seeds)} seeds for {len(plan.splits)} runs"
        raise InputError(f"{counts}; give one seed, or one for each run")
    rule = rule_of(protocol)
    embeddings = [scale_embedding(embedding, rule.rescale) for embedding in inputs.embeddings]
    if len({embedding.shape[1] for embedding in embeddings}) > 1:
        raise InputError("embeddings of different widths; evaluate them one by one")
    classes, labels = renumber_classes(inputs.y.to(embeddings[0].device))
    tables: list[Tensor] = []
    chosen: list[Choice] = []
    for group in _groups(labelled_splits(plan.splits, labels, PARTS), embeddings[0].shape[1]):
        part = slice(len(tables), len(tables) + len(group))
        rows = embeddings[part] if several else embeddings * len(group)
        group_tables, group_chosen = _evaluate_group(rows, labels, group, len(classes), rule, plan.start_seeds[part])
        tables += group_tables
        chosen += group_chosen
    class_names = [inputs.class_names[c] for c in classes] if inputs.class_names else classes.tolist()
    return evaluation_of_tables(protocol, plan.description, plan.split_seeds, tables, chosen, class_names)


class _Plan(NamedTuple):
    """The split of each run, a description of the splits, their random seeds, and the seeds of the classifiers."""

    splits: list[Split]
    description: str
    split_seeds: list[int]
    start_seeds: list[int]


def _plan_runs(inputs: Inputs, protocol: str, runs: int, seed: int | Sequence[int]) -> _Plan:
    """Return the given splits, or draw random ones."""
    if inputs.splits is not None:
        published = f"published, {len(set(map(id, inputs.splits)))}"
        description = published if protocol == "public" else "as given"
        return _Plan(inputs.splits, description, [], seed_list(seed, len(inputs.splits)))
    if protocol == "public":
        raise InputError("protocol 'public' needs the published splits: splits=epagcl.data.public_splits(data)")
    seeds = split_seeds(seed, runs)
    splits = [random_split(inputs.y, seed=split_seed) for split_seed in seeds]
    return _Plan(splits, "random 10/10/80", seeds, seeds)


def _evaluate_group(
    embeddings: Sequence[Tensor], y: Tensor, splits: list[Split], num_classes: int, rule: Rule, seeds: list[int]
) -> tuple[list[Tensor], list[Choice]]:
    """Fit all runs together on training and validation nodes; return the test confusion and the choice of each run."""

    def rows(part: str) -> tuple[Tensor, Tensor]:
        nodes = [getattr(split, part).to(y.device) for split in splits]
        z = torch.stack([embedding[node] for embedding, node in zip(embeddings, nodes, strict=True)])
        return z, torch.stack([y[node] for node in nodes])

    # The fit receives only training and validation nodes, so no choice can depend on a test label.
    weight, bias, chosen = _fit(*rows("train"), *rows("val"), num_classes, rule, seeds)
    tables = []
    for run, (z, split) in enumerate(zip(embeddings, splits, strict=True)):
        test = split.test.to(y.device)
        prediction = (z[test] @ weight[run] + bias[run]).argmax(1)
        tables.append(confusion_matrix(prediction, y[test], num_classes))
    return tables, chosen


def _fit(
    z: Tensor, y: Tensor, z_val: Tensor, y_val: Tensor, num_classes: int, rule: Rule, seeds: list[int]
) -> tuple[Tensor, Tensor, list[Choice]]:
    """Fit softmax regressions for R runs × L penalties at once; choose penalty and step of each run on validation.

    min_W  mean_i CE(softmax(z_i W + b), y_i) + λ/2 ‖W‖², by Adam. The L penalties of a run are columns of one weight
    matrix, so that a step is two batched products.

    Args:
        z: training rows ``[R, n, d]``.
        y: their classes ``[R, n]``.
        z_val: validation rows ``[R, n', d]``.
        y_val: their classes ``[R, n']``.
        num_classes: C.
        rule: penalties, steps and initial weights of the protocol.
        seeds: seed of the random initial weights of each run.

    Returns:
        weights ``[R, d, C]``, biases ``[R, C]`` and the choice of each run.
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
    step, best_step = best.new_zeros(()), torch.zeros_like(best)
    best_weight, best_bias = weight.clone(), bias.clone()
    optimise = _adam([weight, bias])

    def fit_and_validate() -> None:
        """Run the steps up to the next evaluation, and keep the weights with the best validation accuracy so far."""
        for _ in range(rule.every):
            error = by_penalty(torch.baddbmm(bias, z, weight)).softmax(3).sub_(target).div_(n).flatten(2)
            optimise([torch.bmm(z.transpose(1, 2), error).addcmul_(weight, decay), error.sum(1, keepdim=True)])
        step.add_(rule.every)
        hit = by_penalty(torch.baddbmm(bias, z_val, weight)).argmax(3) == y_val[:, :, None]
        accuracy = hit.to(z.dtype).mean(1)
        better = accuracy > best  # strictly: ties go to the earliest step
        torch.where(better, accuracy, best, out=best)
        torch.where(better, step, best_step, out=best_step)
        better = better.repeat_interleave(num_classes, 1)[:, None]
        torch.where(better, weight, best_weight, out=best_weight)
        torch.where(better, bias, best_bias, out=best_bias)

    repeat(fit_and_validate, rule.steps // rule.every, z.device)
    winner = best.argmax(1)  # ties go to the first, which is the strongest penalty
    chosen: list[Choice] = [
        {"decay": rule.decays[k], "step": int(best_step[r, k]), "validation_accuracy": float(best[r, k])}
        for r, k in enumerate(winner.tolist())
    ]
    every_run = torch.arange(runs, device=z.device)
    return by_penalty(best_weight)[every_run, :, winner], by_penalty(best_bias)[every_run, 0, winner], chosen


def _adam(parameters: list[Tensor]) -> Callable[[list[Tensor]], None]:
    """Return a function that makes a step of Adam with given gradients, without the overhead of an optimiser object."""
    device = parameters[0].device.type
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    # The step counts of a captured fit are on the device. On MPS, reading them there would wait for it in each step.
    steps = [torch.zeros((), device="cpu" if device == "mps" else p.device) for p in parameters]

    def step(gradients: list[Tensor]) -> None:
        adam(
            *(parameters, gradients, first, second, [], steps),
            lr=0.01,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
            fused=device != "mps",
            capturable=device == "cuda",  # the number of steps is then read from the device
        )

    return step


def _linear_start(parameter: Tensor, d: int, seed: int, index: int) -> Tensor:
    """Return the initial values of ``nn.Linear``, uniform in ±1/√d."""
    counter = torch.arange(parameter.numel(), device=parameter.device)
    u = uniform(counter, seed, Stream.CLASSIFIER, index).to(parameter.dtype)
    return ((2 * u - 1) / d**0.5).view_as(parameter)


def _groups(splits: Sequence[Split], d: int) -> list[list[Split]]:
    """Group consecutive splits with equal part sizes, such that the gathered rows of a group take at most 1 GiB."""
    max_size = max(1, 2**28 // (d * max(split.train.numel() + split.val.numel() for split in splits)))
    groups: list[list[Split]] = []
    for split in splits:
        size = split.train.numel(), split.val.numel()
        last = groups[-1] if groups else []
        if last and len(last) < max_size and (last[0].train.numel(), last[0].val.numel()) == size:
            last.append(split)
        else:
            groups.append([split])
    return groups
