"""Repeating a run from its record, and comparing the results: equal bits, within bounds, or different."""

import csv
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch_geometric.data import Data

from epagcl.core.checks import check_whole
from epagcl.core.config import current_settings
from epagcl.core.determinism import deterministic
from epagcl.core.errors import InputError
from epagcl.core.files import read_json, reading
from epagcl.core.hardware import resolve_device
from epagcl.core.memory import read_array
from epagcl.core.outputs import CONFIG, METRICS
from epagcl.data.checking import check
from epagcl.data.identity import data_fingerprint
from epagcl.methods.base import Method
from epagcl.methods.registry import method
from epagcl.report.files import runs_in
from epagcl.report.metrics import Provenance
from epagcl.runs.evaluation import Plan
from epagcl.runs.execute import run
from epagcl.runs.folder import RunConfig, run_config
from epagcl.runs.record import provenance
from epagcl.runs.source import load_source

#: Largest differences that count as the same result on another machine or with another number of threads: relative to
#: the largest embedding entry (up to the signs of columns) and to each loss, and absolute for scores. ``docs/trust.md`` has the measured ones.
BOUNDS = {"embeddings": 0.05, "losses": 0.01, "scores": 0.02}
VERDICTS = ("bit-equal", "within bounds", "different")  # best first
_FIX = "give the folder of a finished run"
MOST_THREADS = 4096


@dataclass(frozen=True)
class Difference:
    """The largest difference of one kind of result.

    Attributes:
        what: ``embeddings``, ``losses`` or ``scores``.
        largest: the largest difference; infinite if the shapes, the epochs or the scores are others.
        bound: up to which the results count as the same.
        where: where it is, such as ``epoch 12``.
    """

    what: str
    largest: float
    bound: float
    where: str = ""

    @property
    def verdict(self) -> str:
        """``bit-equal``, ``within bounds`` or ``different``."""
        return VERDICTS[0] if self.largest == 0 else VERDICTS[1] if self.largest <= self.bound else VERDICTS[2]


@dataclass(frozen=True)
class Reproduction:
    """The comparison of a run with its repetition.

    Attributes:
        folder: the run folder.
        differences: of embeddings, losses and scores, as far as the run has them.
        reasons: what is not as in the run: versions, number of threads and of ranks, device.
    """

    folder: Path
    differences: list[Difference]
    reasons: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """The worst verdict of the differences."""
        return max((difference.verdict for difference in self.differences), key=VERDICTS.index, default=VERDICTS[0])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        rows = [{**asdict(difference), "verdict": difference.verdict} for difference in self.differences]
        return {"folder": str(self.folder), "verdict": self.verdict, "differences": rows, "reasons": self.reasons}


def reproduce(
    folder: str | Path,
    data: Data | None = None,
    *,
    root: str | Path | None = None,
    out: str | Path | None = None,
    say: Callable[[str], None] = lambda words: None,
) -> list[Reproduction]:
    """Repeat a finished run from its record and compare the results.

    The record has the settings, the seed, the fingerprint of the graph, the number of threads and the versions. The
    same number of threads is used. The run folder is not changed.

    Args:
        folder: the run folder. A folder with several seeds counts as one run per seed.
        data: the graph; None to load it again from where the run had it.
        root: folder of named graphs; see :func:`epagcl.data.data_root`.
        out: folder to keep the repeated runs in; None: a temporary one.
        say: called with the folder of each run before it is repeated.

    Returns:
        One comparison per run.

    Raises:
        InputError: if the folder has no finished run, or if the graph is another one.

    Examples:
        >>> from epagcl import EPAGCL
        >>> from epagcl.data import block_model
        >>> data = block_model(60, num_classes=3, num_features=40, topic_words=10, seed=3)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     metrics = run(data, EPAGCL(epochs=2, dim=4, device="cpu"), Path(place), map_kind="none")
        ...     [result] = reproduce(place, data)
        >>> result.verdict, result.reasons
        ('bit-equal', [])
    """
    results = []
    for single in runs_in(Path(folder)):
        config, metrics = _record(single)
        graph = load_source(config["data"], root, single) if data is None else data
        if data_fingerprint(check(graph, quiet=True)) != config["data"]["fingerprint"]:
            raise InputError(
                f"{single}: its graph has changed (edges, features, labels, splits, ids or names); "
                "restore it, or train on the new one"
            )
        say(str(single))
        with _place(out, single) as place:
            repeated = _repeat(single, graph, config, metrics, place)
            results.append(Reproduction(single, compare_runs(single, place), reasons_for(metrics, repeated)))
    return results


def compare_runs(folder: Path, other: Path) -> list[Difference]:
    """Return the differences between the results of two run folders: embeddings, losses and scores.

    Args:
        folder: a finished run.
        other: another one, with the same settings.
    """
    z, again = (read_array(place / "embeddings.npy", _FIX) for place in (folder, other))
    rows = [Difference("embeddings", *_array_difference(z, again))]
    ids, ids_again = (_ids(place / "embeddings.ids.txt") for place in (folder, other))
    if ids != ids_again:
        raise InputError(f"{folder}: embeddings.ids.txt does not have the ids of the graph; was it edited?")
    losses, losses_again = (_losses(place / "history.csv") for place in (folder, other))
    if losses or losses_again:
        rows.append(Difference("losses", *_series_difference(losses, losses_again)))
    scores, scores_again = (_scores(read_json(place / METRICS, _FIX)) for place in (folder, other))
    if scores or scores_again:
        rows.append(Difference("scores", *_score_difference(scores, scores_again)))
    return rows


def _ids(path: Path) -> bytes:
    with reading(path, _FIX):
        return path.read_bytes()


def reasons_for(before: Provenance, now: Provenance) -> list[str]:
    """Return what differs between the records of two runs and may change their results.

    Args:
        before: the record of the first run.
        now: the record of its repetition.

    Examples:
        >>> record = provenance("cpu")
        >>> reasons_for({**record, "versions": {**record["versions"], "numpy": "1.0"}}, record)
        ['numpy 1.0, now ...']
    """
    pairs: dict[str, tuple[object, object]] = {
        name: (before["versions"].get(name), version) for name, version in now["versions"].items()
    }
    hardware, current = before["hardware"], now["hardware"]
    pairs |= {name: (hardware.get(name), current.get(name)) for name in ("device", "cpu", "threads")}
    pairs["ranks"] = _ranks(before), _ranks(now)
    pairs["commit"] = before["commit"], now["commit"]
    reasons = [f"{name} {old}, now {new}" for name, (old, new) in pairs.items() if old != new]
    if current["device"] != "cpu" and not current.get("deterministic"):
        reasons.append("a GPU without --deterministic")
    return reasons


def _ranks(metrics: Provenance) -> int:
    """Return the number of processes that shared a training; 1 in records of versions that did not store it."""
    training = cast(dict[str, Any], metrics).get("training") or {}
    return int(training.get("ranks", 1))


def _record(folder: Path) -> tuple[RunConfig, Provenance]:
    """Return the configuration and the metrics of a finished run."""
    if not (folder / METRICS).is_file() or not (folder / CONFIG).is_file():
        raise InputError(f"{folder}: no finished run; {_FIX}")
    config, metrics = run_config(folder), read_json(folder / METRICS, _FIX)
    with reading(folder, _FIX):
        _ = config["method"]["name"], config["data"]["fingerprint"], metrics["versions"]["torch"], metrics["commit"]
        _ = metrics["hardware"]["device"], int(metrics.get("training", {}).get("ranks", 1))
        threads = metrics["hardware"]["threads"]
    check_whole(threads, f"{folder / METRICS}: threads", 1, MOST_THREADS)
    return config, cast(Provenance, metrics)


@contextmanager
def _place(out: str | Path | None, folder: Path) -> Iterator[Path]:
    """Yield the folder of a repetition: in ``out``, or a temporary one."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="epagcl-") as temporary:
            yield Path(temporary)
    else:
        place = Path(out) / folder.name
        if place.exists():
            raise InputError(f"{place}: already exists; give another out=")
        yield place


def _repeat(folder: Path, data: Data, config: RunConfig, metrics: Provenance, place: Path) -> Provenance:
    """Run again with the number of threads, and on the device, of the record. Return the new record."""
    model = _model(folder, config, metrics["hardware"]["device"])
    evaluation = config.get("evaluation")
    with reading(folder / CONFIG, _FIX):
        plan = None if evaluation is None else Plan(**evaluation)
    threads = torch.get_num_threads()
    strict = metrics["hardware"].get("deterministic")
    torch.set_num_threads(int(metrics["hardware"]["threads"]))
    try:
        with deterministic(resolve_device(model.device)) if strict else nullcontext():
            return run(data, model, place, name=config["data"].get("name", "graph"), plan=plan, map_kind="none")
    finally:
        torch.set_num_threads(threads)


def _model(folder: Path, config: RunConfig, device: str) -> Method:
    """Return the method of a run, on the kind of device that it had if there is one here."""
    with reading(folder / CONFIG, _FIX):
        settings = current_settings(config["method"])
        cls = method(str(settings.pop("name")))
    if device in ("cpu", "mps"):
        settings["device"] = device
    elif not str(settings.get("device", "")).startswith("cuda:") or not torch.cuda.is_available():
        settings["device"] = "auto"
    with reading(folder / CONFIG, _FIX):
        return cls(**settings)


def _array_difference(z: "np.ndarray[Any, Any]", again: "np.ndarray[Any, Any]") -> tuple[float, float, str]:
    """Return the largest difference relative to the largest entry, its bound, and its row."""
    bound = BOUNDS["embeddings"]
    if z.shape != again.shape or z.dtype != again.dtype:
        return np.inf, bound, f"{z.shape} of {z.dtype}, now {again.shape} of {again.dtype}"
    if z.tobytes() == again.tobytes():
        return 0.0, bound, ""
    difference = np.abs(z.astype(np.float64) - with_signs_of(z, again)).max(axis=1)
    row = int(difference.argmax())
    # At least the smallest number, since other bits may be an equal number: 0 and −0.
    largest = max(float(difference[row] / max(np.abs(z).max(), 1e-30)), np.finfo(np.float64).tiny)
    return largest, bound, f"row {row} (counted from 0)"


def with_signs_of(z: "np.ndarray[Any, Any]", again: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Return an embedding with the sign of each column as in another one.

    A principal component and its negative are equally good. Which one is used is a matter of rounding if its largest
    and its smallest entry are of about the same size.

    Args:
        z: the other embedding.
        again: the embedding.

    Examples:
        >>> with_signs_of(np.array([[1.0, 2.0]]), np.array([[-1.0, 2.1]]))
        array([[1. , 2.1]])
    """
    return again * np.where((z.astype(np.float64) * again).sum(axis=0) < 0, -1, 1).astype(again.dtype)


def _losses(path: Path) -> list[float]:
    with reading(path, _FIX):
        return [float(row["loss"]) for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())]


def _series_difference(losses: list[float], again: list[float]) -> tuple[float, float, str]:
    bound = BOUNDS["losses"]
    if len(losses) != len(again):
        return np.inf, bound, f"{len(losses)} epochs, now {len(again)}"
    relative = [abs(a - b) / max(abs(a), 1e-12) for a, b in zip(losses, again, strict=True)]
    epoch = int(np.argmax(relative))
    return relative[epoch], bound, f"epoch {epoch + 1}" if relative[epoch] else ""


def _scores(metrics: dict[str, Any]) -> dict[str, float]:
    """Return all scores of a run by their place: of the embedding and of its references."""

    def leaves(value: object, name: str) -> Iterator[tuple[str, float]]:
        if isinstance(value, dict):
            for key, part in value.items():
                yield from leaves(part, f"{name}.{key}" if name else str(key))
        elif isinstance(value, list):
            for index, part in enumerate(value):
                yield from leaves(part, f"{name}[{index}]")
        elif isinstance(value, float):
            yield name, value

    kept = {key: metrics[key] for key in ("evaluation", "references") if key in metrics}
    return dict(leaves(kept, ""))


def _score_difference(scores: dict[str, float], again: dict[str, float]) -> tuple[float, float, str]:
    bound = BOUNDS["scores"]
    if scores.keys() != again.keys():
        return np.inf, bound, f"{min(scores.keys() ^ again.keys())} in one of them only"
    differences = {name: abs(value - again[name]) for name, value in scores.items()}
    name = max(differences, key=lambda key: differences[key])
    return differences[name], bound, name if differences[name] else ""
