"""The commands whose faults are tested: how they start, how they are repeated, and what they must leave."""

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epagcl.core.log import log
from epagcl.data import block_model
from epagcl.data.io.npz import write_npz

DATA = block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)
_SMALL = ["--epochs", "2", "--hidden", "8", "--dim", "4", "--device", "cpu", "--quiet"]
#: Values that differ between two runs: times, and what they were measured on.
VARYING = (
    *("seconds", "date", "created", "hardware", "versions", "commit", "memory", "minutes", "time", "pace", "folder"),
)

Results = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """A command, how it is repeated, and what it leaves.

    Attributes:
        words: its arguments, in a folder that :func:`prepare` has filled.
        results: function that returns what must not depend on what happened, by name, from the folder.
        resumes: the file that must exist for ``--resume`` when it is repeated; None: the same words again.
        refuses: the words with which it refuses to repeat what is finished, if it does.
        warm: whether it may run in the process whose children are stopped; not if it starts threads.
    """

    words: list[str]
    results: Callable[[Path], Results]
    resumes: str | None = None
    refuses: str | None = None
    warm: bool = True

    def again(self, place: Path) -> list[str]:
        """Return the arguments with which a stopped command is repeated in a folder."""
        return [*self.words, "--resume"] if self.resumes and list(place.glob(self.resumes)) else self.words


def commands() -> dict[str, Command]:
    """Return the commands by name. ``paper`` takes a small named graph if it is on the disk, which is faster."""
    train = ["train", "g.npz", "--method", "epagcl", "--out", "run", "--map", "none", *_SMALL]
    embed = ["embed", "g.npz", "--method", "epagcl", "--out", "z.npy", "--save", "m", "--overwrite", "--map", "none"]
    compare = ["compare", "g.npz", "--methods", "dgi", "--seeds", "2", "--protocols", "strict", "--out", "c"]
    compare += ["--save", "all.json", "--epochs", "2", "--dim", "4", "--device", "cpu", "--quiet"]
    tune = ["tune", "g.npz", "--method", "epagcl", "--trials", "2", "--seeds", "1", "--no-test", "--out", "t", *_SMALL]
    ingest = ["ingest", "--edges", "e.csv", "--features", "f.csv", "--label", "class", "--out", "graph", "--quiet"]
    small = "texas" if Path(os.environ.get("EPAGCL_DATA", ""), "Texas.npz").is_file() else "demo"
    paper = ["paper", "epr", "--datasets", small, "--out", "p", "--device", "cpu", "--quiet"]
    model = ("model.safetensors", "config.toml")
    chosen = {
        "train": Command(train, lambda place: _run_results(place / "run"), resumes="run/config.toml"),
        "embed": Command(
            [*embed, *_SMALL], lambda place: _bytes(place, "z.npy", "z.ids.txt") | _bytes(place / "m", *model)
        ),
        "compare": Command(compare, lambda place: _values(place / "all.json")),
        "tune": Command(tune, lambda place: _bytes(place / "t", "best.toml"), resumes="t/*"),
        "report": Command(
            ["report", "done", "--out", "r.html", "--map", "none", "--quiet"], lambda place: _page(place / "r.html")
        ),
        "ingest": Command(ingest, lambda place: _folder(place / "graph"), refuses="holds a graph already", warm=False),
    }
    return {**chosen, "paper": Command(paper, lambda place: _values(place / "p" / "epr.json"))}


def prepare(folder: Path) -> Path:
    """Fill a folder with what the commands read: a graph, tables, and a finished run. Return the folder.

    Args:
        folder: an empty folder.
    """
    os.environ["EPAGCL_CHECKPOINT_SECONDS"] = "0"
    log.setLevel("CRITICAL")
    write_npz(DATA, folder / "g.npz")
    pairs = DATA.edge_index.t().tolist()
    (folder / "e.csv").write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in pairs if i < j))
    rows = zip(DATA.x.to_dense()[:, :5].tolist(), DATA.y.tolist(), strict=True)
    lines = [f"n{k},{','.join(map(str, x))},{y}\n" for k, (x, y) in enumerate(rows)]
    (folder / "f.csv").write_text(f"id,a,b,c,d,e,class\n{''.join(lines)}")
    run(commands()["train"].words, folder)
    (folder / "run").rename(folder / "done")
    return folder


def run(words: list[str], folder: Path) -> None:
    """Run a command inside this process, without its handling of errors and signals."""
    from epagcl.cli.app import app

    before = os.getcwd()
    os.chdir(folder)
    try:
        code = app(words, standalone_mode=False)
    finally:
        os.chdir(before)
    assert not isinstance(code, int) or code == 0, code


def as_program(words: list[str], folder: Path) -> Callable[[], None]:
    """Return a function that runs a command in a folder as the program does, and ends with its exit code."""

    def program() -> None:
        from epagcl.cli import main

        os.chdir(folder)
        sys.argv = ["epagcl", *words]
        main()

    return program


def difference(expected: Results, found: Results) -> str | None:
    """Return the name of the first result that is not as expected, in words, or None."""
    for name in {**expected, **found}:
        if expected.get(name) != found.get(name):
            return f"{name} is missing" if name not in found else f"{name} is another one"
    return None


def _run_results(folder: Path) -> Results:
    metrics = json.loads((folder / "metrics.json").read_text())
    history = [line.split(",")[:2] for line in (folder / "history.csv").read_text().splitlines()]
    files = ("embeddings.npy", "embeddings.ids.txt", "model.safetensors", "config.toml", "nodes.csv")
    return (
        {"metrics.json": _kept(metrics), "history.csv": history}
        | _bytes(folder, *files)
        | _page(folder / "report.html")
    )


def _page(file: Path) -> Results:
    """Return the elements of a page outside its scripts, whose data hold times, and its end."""
    text = re.sub(r"<script.*?</script>", "", file.read_text(), flags=re.DOTALL)
    return {f"end of {file.name}": text[-10:], f"elements of {file.name}": re.findall(r"<(/?[a-z]\w*)", text)}


def _folder(folder: Path) -> Results:
    """Return the content of all files in a folder."""
    found: Results = {}
    for path in sorted(folder.rglob("*")):
        found |= _values(path) if path.suffix == ".json" else {path.name: path.is_dir() or path.read_bytes()}
    return found


def _bytes(folder: Path, *names: str) -> Results:
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}


def _values(file: Path) -> Results:
    """Return the content of a JSON file without the values that differ between runs."""
    return {file.name: _kept(json.loads(file.read_text()))}


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _kept(part) for key, part in value.items() if not any(word in key for word in VARYING)}
    return [_kept(part) for part in value] if isinstance(value, list) else value
