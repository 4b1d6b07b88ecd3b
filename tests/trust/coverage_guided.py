"""Coverage-guided fuzzing of the readers with Atheris: inputs that reach new code are kept and varied further.

``python -m tests.trust.coverage_guided TARGET FOLDER RUNS SEED`` runs one target; Atheris ends its process.
"""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.trust.cases import Tally

TARGETS = ("table", "array", "configuration", "checkpoint")
#: The modules whose branches guide the fuzzer, for each target.
GUIDES = {
    "table": ["epagcl.data.io"],
    "array": ["epagcl.core.memory", "epagcl.data.io"],
    "configuration": ["epagcl.core.config", "epagcl.methods.settings", "tomllib"],
    "checkpoint": ["epagcl.training.checkpoint", "epagcl.core.files"],
}
MAX_BYTES, SECONDS, MEMORY_MIB = 4096, 30, 8192


def coverage_guided(folder: Path, cases: int, seed: int) -> Tally:
    """Run ``cases`` inputs in all through the targets, each in a process of its own.

    Args:
        folder: an empty folder.
        cases: number of inputs.
        seed: seed of the fuzzer.
    """
    tally = Tally(seed)
    if importlib.util.find_spec("atheris") is None:
        tally.details = {"skipped": f"no Atheris for Python {sys.version_info.major}.{sys.version_info.minor}"}
        return tally
    reached = {}
    targets = TARGETS if cases >= 100 else TARGETS[1:2]  # a process takes seconds to start
    for target in targets:
        command = [
            sys.executable,
            "-m",
            "tests.trust.coverage_guided",
            target,
            str(folder),
            str(cases // len(targets)),
            str(seed),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
        units = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
        coverage = re.findall(r"cov: (\d+)", done.stderr)
        tally.outcomes[f"{target}: accepted or refused in one line"] += int(units[1]) if units else 0
        reached[target] = int(coverage[-1]) if coverage else 0
        if done.returncode != 0 or not units:
            tally.add(target, "", done.stdout[-1500:] + done.stderr[-2500:])
    tally.details = {"fuzzer": "Atheris", "covered_branches": reached}
    return tally


def _read_table(folder: Path) -> tuple[Callable[[bytes], object], list[bytes]]:
    from epagcl import read_graph

    features, file = folder / "f.csv", folder / "e.csv"
    features.write_text("id,a,b\n" + "".join(f"{k},{k / 7},x{k % 3}\n" for k in range(6)))

    def read(content: bytes) -> None:
        file.write_bytes(content)
        read_graph(edges=file, features=features)

    examples = [
        b"source,target\n0,1\n1,2\n",
        b'0\t1\n"2"\t3\n',
        b"a;b;weight\n1;2;0.5\n",
        "x,y\nä,ö\n".encode("utf-16"),
    ]
    return read, examples


def _read_array(folder: Path) -> tuple[Callable[[bytes], object], list[bytes]]:
    import io

    from epagcl import read_graph

    edges, file = folder / "n.csv", folder / "f.npy"
    edges.write_text("source,target\n0,1\n1,2\n")

    def read(content: bytes) -> None:
        file.write_bytes(content)
        read_graph(edges=edges, features=file)

    examples = []
    for array in (np.eye(3), np.ones((3, 2), np.float16), np.arange(6).reshape(3, 2), np.array([["a"], ["b"], ["c"]])):
        buffer = io.BytesIO()
        np.save(buffer, array)
        examples.append(buffer.getvalue())
    return read, examples


def _read_configuration(folder: Path) -> tuple[Callable[[bytes], object], list[bytes]]:
    from epagcl.cli.options import make_method
    from epagcl.core.config import current_settings, read_config

    file = folder / "config.toml"

    def read(content: bytes) -> None:
        file.write_bytes(content)
        table = current_settings(read_config(file).get("method", {}))
        make_method(str(table.pop("name", "epagcl")), table)

    return read, [
        b'[method]\nname = "epagcl"\nepochs = 2\nlr = 0.1\n',
        b'[method]\nname = "mvgrl"\nalpha = 0.2\n[data]\n',
    ]


def _read_checkpoint(folder: Path) -> tuple[Callable[[bytes], object], list[bytes]]:
    from epagcl import EPAGCL
    from epagcl.training import checkpoint
    from epagcl.training.epoch import EpochRunner
    from epagcl.training.loop import adam
    from tests.trust.long_runs import DATA

    method = EPAGCL(epochs=2, hidden=2, dim=2, projection=2, device="cpu").fit(DATA)
    file = folder / "c.safetensors"
    graph = method._checked_graph(DATA, quiet=True)
    runner = EpochRunner(method, method.network_, graph, adam(method, method.network_, graph.device))
    saver = checkpoint.Checkpointer(file, runner)
    saver.save(method.history_)
    checkpoint.tensor_digest = lambda *_: _Any()  # a checksum that always fits, to reach the checks behind it

    def read(content: bytes) -> None:
        file.write_bytes(content)
        saver.load()

    return read, [file.read_bytes()]


class _Any:
    """Equals everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


def main() -> None:
    """Run one target; the process ends with 0 if every input was read or refused in one line."""
    import atheris

    target, folder, runs, seed = sys.argv[1], Path(sys.argv[2]) / sys.argv[1], sys.argv[3], sys.argv[4]
    corpus = folder / "corpus"
    corpus.mkdir(parents=True)
    with atheris.instrument_imports(include=GUIDES[target], enable_loader_override=False):
        read, examples = globals()[f"_read_{target}"](folder)
    from epagcl.core.errors import InputError, MissingExtra
    from epagcl.core.log import log

    log.setLevel("CRITICAL")
    for number, example in enumerate(examples):
        (corpus / str(number)).write_bytes(example)

    def one(content: bytes) -> None:
        try:
            read(content)
        except (InputError, MissingExtra) as error:
            if "\n" in str(error) or len(str(error)) > 2000:
                raise AssertionError(f"not one line: {str(error)[:300]!r}") from None

    options = [f"-runs={runs}", f"-seed={int(seed) + 1}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEMORY_MIB}"]
    options += [
        "-print_final_stats=1",
        f"-max_len={max(MAX_BYTES, *map(len, examples))}",
        f"-artifact_prefix={folder}/",
    ]
    for example in examples:  # imports take longer than an input may
        one(example)
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
