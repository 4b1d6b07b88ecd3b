"""Command lines drawn by Hypothesis: valid ones with words that are changed, added and left out."""

import hashlib
import json
import os
import re
import resource
import shutil
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

import epagcl
from tests.trust.cases import SECONDS, Tally
from tests.trust.commands import as_program, prepare
from tests.trust.steps import Ended, child

#: Files and folders that a command line may name, whole, damaged, missing or of another kind.
FILES = (
    *("g.npz", "e.csv", "f.csv", "x.npy", "labels.csv", "z.npy", "ids.txt", "done", "done/embeddings.npy", "c.toml"),
    *("empty.csv", "empty.npy", "missing.csv", "missing", "broken.npz", "broken.csv", "link.csv", "folder", ".", "/"),
    *("out/z.npy", "out/z.csv", "out/z.parquet", "out/run", "out/a/b/c.csv", "out/z.xyz", "/dev/null", "/proc/x/y.csv"),
    *("e.csv/x", "structure", "demo", "no-such-graph", "cora", "./e.csv", "done/config.toml", "done/metrics.json"),
)
OF_A_RUN = ("done/nodes.csv", "done/history.csv", "done/embeddings.npy", "done/config.toml")
NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1.5",
    "0.5",
    "nan",
    "inf",
    "-inf",
    "2147483648",
    "9" * 30,
    "1e300",
    "x",
    "",
    "0x10",
)
WORDS = (
    *(
        "class",
        "a",
        "source",
        "target",
        "id",
        "n1",
        "n1,n2",
        "",
        "ä😀",
        "a=b",
        "../../x",
        "-",
        "--",
        "%s {0}",
        "\\",
        "'",
    ),
    *("\x1b[31m", "x" * 300, "auto", "none", "pca", "strict", "paper", "public", "cpu", "cuda", "mps", "both", "skip"),
    *("hdbscan", "kmeans", "knn", "euclidean", "hnsw", "a=number", "a=text,b=date", "epochs=1:2", "0.1,0.1", "true"),
)
#: Options whose large numbers are requests for much work, not mistakes.
COUNTS = ("epochs", "trials", "seeds", "runs", "rounds", "members", "code-probes", "negatives", "layers", "minutes")
COUNTS += ("heads", "out-heads", "edge-pairs", "seconds")
#: Parameters that are files or folders.
PATHS = ("edges", "features", "labels", "nodes", "data", "root", "config", "out", "model", "only", "previous", "align")
PATHS += ("save", "columns", "figure", "projector")
OUTPUTS = ("--out", "--save", "--figure", "--projector")
SMALL = {"epochs": 1, "hidden": 4, "dim": 4, "projection": 4, "gate_hidden": 4, "predictor": 4, "device": "cpu"}
_TABLES = ["--edges", "e.csv", "--features", "f.csv", "--label", "class"]


def fuzz_commands(folder: Path, cases: int, seed: int) -> Tally:
    """Run ``cases`` command lines, drawn by Hypothesis, each in a child process.

    A command ends with 0, or in one line with 1 or 2. It changes no file but those that it is told to write, a refused
    one leaves no new files, and none leaves temporary files. What ``--json`` prints is JSON.

    Args:
        folder: an empty folder.
        cases: number of cases.
        seed: seed of the words.
    """
    tally = Tally(seed)
    template = folder / "template"
    template.mkdir()
    _fill(template)
    known = _digests(template)

    @hypothesis.seed(seed)
    @settings(
        max_examples=cases, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )
    @hypothesis.given(command_lines())
    def run(words: list[str]) -> None:
        outcome, failure = _outcome(words, folder, known)
        tally.add(words[0], outcome, failure and f"epagcl {words}: {failure}")

    run()
    tally.details = {"fuzzer": "Hypothesis", "commands": sorted({words[0] for words in _templates()})}
    return tally


def command_lines() -> st.SearchStrategy[list[str]]:
    """Return a strategy for command lines: a valid one, with up to three changes."""
    options = {words[0]: _options(words[0]) for words in _templates()}

    @st.composite
    def changed(draw: Any) -> list[str]:
        words = list(draw(st.sampled_from(_templates())))
        for _ in range(draw(st.integers(0, 3))):
            place = draw(st.integers(1, len(words)))
            outputs = [place + 1 for place, word in enumerate(words[:-1]) if word in OUTPUTS]
            match draw(st.integers(0, 9)):
                case 0 if place < len(words):
                    del words[place]
                case 1 | 2 if place < len(words) and not words[place].startswith("--"):
                    words[place] = draw(st.sampled_from((*FILES, *NUMBERS, *WORDS)))
                case 3:
                    words.insert(place, draw(st.sampled_from((*FILES, *NUMBERS, *WORDS))))
                case 4 | 5 if outputs:  # over one of its own inputs, or a file of a run
                    inputs = [word for word in words if word in FILES]
                    words[draw(st.sampled_from(outputs))] = draw(st.sampled_from((*inputs, *OF_A_RUN)))
                case _:
                    flag, values = draw(st.sampled_from(options[words[0]]))
                    words += [flag] if values is None else [flag, draw(st.sampled_from(values))]
        return _in_time(words)

    return changed()


def _in_time(words: list[str]) -> list[str]:
    """Return the words with small numbers where a large one asks for hours of work."""
    for place, word in enumerate(words[:-1]):
        if word.lstrip("-").replace("_", "-") in COUNTS:
            words[place + 1] = re.sub(r"^(\d{3,}|1e300|inf)$", "2", words[place + 1])
    trains = words[0] in ("train", "embed", "compare", "tune", "links", "paper")
    return [*words, "--epochs", "1"] if trains and "--epochs" not in words else words


def _templates() -> list[list[str]]:
    """Return valid command lines, at least one of each command."""

    def small(method: str) -> list[str]:
        fields = {field.name for field in epagcl.method(method).setting_fields()}
        chosen = {key.replace("_", "-"): value for key, value in SMALL.items() if key in fields}
        return ["--method", method, *(word for key, value in chosen.items() for word in (f"--{key}", str(value)))]

    z, no_map = ["--out", "out/z.npy"], ["--map", "none"]
    lines = [["train", "g.npz", *small(method), "--out", "out/run", *no_map] for method in epagcl.methods()]
    lines += [["train", *_TABLES, *small("grace"), "--out", "out/run", *no_map, "--json"]]
    lines += [["embed", *_TABLES, *small(method), *z, *no_map] for method in ("grace", "epagcl+", "propagated")]
    lines += [["embed", "g.npz", "--model", "done", *z, *no_map], ["embed", "g.npz", *small("grace"), *z, "--json"]]
    lines += [["embed", "g.npz", "--model", "done", *z, "--only", "ids.txt", *no_map]]
    lines += [["plan", "g.npz"], ["plan", "--nodes", "100", "--edges", "200", "--features", "10", "--json"]]
    lines += [["report", "done", "--out", "out/r.html", *no_map], ["export", "done", "--out", "out/z.csv", "--columns"]]
    lines += [["reproduce", "done"], ["reproduce", "done", "--out", "out/again", "--json"]]
    quick = ["--epochs", "1", "--dim", "4", "--device", "cpu"]
    lines += [
        ["compare", "g.npz", "--methods", "dgi", "--seeds", "1", "--protocols", "strict", "--out", "out/c", *quick]
    ]
    lines += [["tune", "g.npz", *small("grace"), "--trials", "1", "--seeds", "1", "--no-test", "--out", "out/t"]]
    lines += [
        ["neighbours", "z.npy", "--of", "n1", "--k", "3"],
        ["neighbours", "z.npy", "--out", "out/n.csv", "--json"],
    ]
    lines += [["cluster", "z.npy", "--k", "2", "--out", "out/c.csv"], ["cluster", "z.npy", "--labels", "labels.csv"]]
    lines += [["classify", "z.npy", "--labels", "labels.csv", "--out", "out/p.csv", "--no-curve"]]
    lines += [["anomalies", "z.npy", "--graph", "g.npz", "--out", "out/a.csv"], ["anomalies", "z.npy", *_TABLES]]
    lines += [["links", "g.npz", *small("grace"), "--json"], ["epr", "g.npz"], ["epr", *_TABLES, "--json"]]
    lines += [["ingest", *_TABLES, "--out", "out/graph"], ["datasets"], ["methods"], ["methods", "grace", "--json"]]
    return [*lines, ["doctor"], ["paper", "epr", "--datasets", "g.npz", "--out", "out/p", "--device", "cpu"]]


def _options(command: str) -> list[tuple[str, tuple[str, ...] | None]]:
    """Return the options of a command with values to draw from; None for a switch."""
    import typer.main

    from epagcl.cli.app import app

    group: Any = typer.main.get_command(app)
    chosen = group.commands[command].commands["epr"] if command == "paper" else group.commands[command]
    found: list[tuple[str, tuple[str, ...] | None]] = []
    for parameter in chosen.params:
        number = isinstance(parameter.default, int | float) or parameter.name in ("k", "hops", "min_size", "memory")
        values = FILES if parameter.name in PATHS else NUMBERS if number else WORDS
        switch = getattr(parameter, "is_flag", False)
        found += [(flag, None if switch else values) for flag in parameter.opts if flag.startswith("-")]
    fields = {field.name: field.type for name in epagcl.methods() for field in epagcl.method(name).setting_fields()}
    if command in ("train", "embed", "compare", "tune", "links", "plan"):
        found += [(f"--{name.replace('_', '-')}", WORDS if kind is str else NUMBERS) for name, kind in fields.items()]
    return found


def _outcome(words: list[str], folder: Path, known: dict[str, str]) -> tuple[str, str | None]:
    """Run a command line in a new folder. Return how it ended, and what is wrong, if anything."""
    place, elsewhere, printed = folder / "place", folder / "elsewhere", folder / "stdout"
    shutil.copytree(folder / "template", place, symlinks=True)
    elsewhere.mkdir()
    try:
        ended = child(_apart(as_program(words, place), elsewhere, printed), seconds=20 * SECONDS)
        outcome = "finished" if ended.code == 0 else "refused in one line"
        failure = _wrong_end(words, ended, printed) or _wrong_files(words, ended, place, known)
        left = [path.name for path in elsewhere.iterdir()]
        return outcome, failure or (f"left in the folder for temporary files: {left}" if left else None)
    except TimeoutError as error:
        return "", str(error)
    finally:
        shutil.rmtree(place)
        shutil.rmtree(elsewhere)


def _apart(program: Callable[[], None], elsewhere: Path, printed: Path) -> Callable[[], NoReturn]:
    """Return a program with a folder for temporary files, a file for its output, and limits of time and memory."""

    def apart() -> NoReturn:
        os.environ["TMPDIR"] = tempfile.tempdir = str(elsewhere)
        os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))
        program()
        raise AssertionError("the program returned")

    return apart


def _wrong_end(words: list[str], ended: Ended, printed: Path) -> str | None:
    lines = [line for line in ended.words.splitlines() if line.startswith("epagcl: ")]
    says = f"ended with {ended.code}: {ended.words[-900:]}"
    if (
        "Traceback" in ended.words
        or re.search(r"\b[A-Z]\w+(Warning|Error): ", ended.words)
        or ended.code not in (0, 1, 2)
    ):
        return says
    if ended.code == 2 and (len(lines) != 1 or not ended.words.rstrip().splitlines()[-1].startswith("epagcl: ")):
        return f"not one line: {says}"
    if ended.code == 1 and words[0] not in ("doctor", "reproduce") and len(lines) != 1:
        return f"not one line: {says}"
    as_json = any(flag == "--json" and before not in OUTPUTS for before, flag in pairwise(words))
    if ended.code == 0 and as_json and "--help" not in words:
        try:
            json.loads(printed.read_text(), parse_constant=_no_constant)
        except ValueError as error:
            return f"what it prints is no JSON ({error}): {printed.read_text()[:300]}"
    return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not part of JSON")


def _wrong_files(words: list[str], ended: Ended, place: Path, known: dict[str, str]) -> str | None:
    """Return what is wrong with the files that a command leaves, if anything."""
    found = _digests(place)
    hidden = [name for name in found.keys() - known.keys() if Path(name).name.startswith(".")]
    if hidden:
        return f"left behind: {sorted(hidden)}"
    told = {_path(place, word) for flag, word in pairwise(words) if flag in OUTPUTS}
    read = [_path(place, word) for flag, word in pairwise(words) if flag not in OUTPUTS and word[:1] != "-"]
    told |= {place / "done/report.html"} if words[0] == "report" else set()
    told |= {place / "predictions.csv"} if words[0] == "classify" else set()
    for name, digest in known.items():
        path = place / name
        if found.get(name) != digest:
            out = next((one for one in told if path == one or one in path.parents or _beside(path, one)), None)
            replaced = out is not None and out.is_file() and (out in read or name in OF_A_RUN)
            if out is None or replaced:
                return f"{name} was {'changed' if name in found else 'removed'}; ended with {ended.code}"
    # What a stopped ingestion has read is kept in its folder, to continue.
    new = sorted(name for name in found.keys() - known.keys() if not (words[0] == "ingest" and "/ingest/" in name))
    return f"refused, and left {new}: {ended.words[-300:]}" if ended.code == 2 and new else None


def _beside(path: Path, out: Path) -> bool:
    """Return whether a file belongs to an output, such as z.ids.txt to z.npy."""
    return path.parent == out.parent and path.name.startswith(f"{out.stem}.") and path.suffix in (".txt", ".html")


def _path(place: Path, word: str) -> Path:
    try:
        return (place / word).resolve()
    except (OSError, ValueError):
        return place / "no path"


def _digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {
        str(path.relative_to(folder)): hashlib.sha256(
            os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        ).hexdigest()
        for path in files
    }


def _fill(folder: Path) -> None:
    """Fill a folder with the files that command lines name."""
    prepare(folder)
    done = np.load(folder / "done" / "embeddings.npy")
    np.save(folder / "z.npy", done)
    (folder / "z.ids.txt").write_text("".join(f"n{k}\n" for k in range(len(done))))
    np.save(folder / "x.npy", np.eye(60, 5, dtype=np.float32))
    (folder / "labels.csv").write_text("id,class\n" + "".join(f"n{k},{k % 3}\n" for k in range(40)))
    (folder / "ids.txt").write_text("1\n5\n")
    (folder / "c.toml").write_text('[method]\nname = "grace"\nepochs = 1\ndim = 4\n')
    (folder / "broken.npz").write_bytes((folder / "g.npz").read_bytes()[:700])
    (folder / "broken.csv").write_bytes(b'source,target\nn1,"n2\n\xff\xfe,n3\n')
    for name in ("empty.csv", "empty.npy"):
        (folder / name).touch()
    (folder / "link.csv").symlink_to("e.csv")
    (folder / "folder").mkdir()
