"""Mutation testing of the mathematics: a changed formula must fail a test that mirrors its module."""

import os
import random
import signal
import sys
import time
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from tests.trust.cases import Tally
from tests.trust.mutants import ROOT, Mutant, mutants_of

#: Survivors that no result can tell from the original: the line, the change, and the reason.
EQUIVALENT = {
    ("return torch.where(degree > 0, degree, 1)", "1 → 2"): "of isolated nodes, which have no edges to weigh",
    ("size = min(isqrt(2 * l - 1) + 1 if l else 0, degree.numel())  # ⌈√(2l)⌉ in integer arithmetic", "0 → 1"): (
        "one node has no pairs, as none has"
    ),
    (
        "TILE = 768  # two bf16 tiles and their operands fit in a core's cache",
        "768 → 769",
    ): "only the time depends on it",
}
PACKAGES = ("epr", "views", "losses", "evaluation", "diffusion")
#: Files that are left out: kernels, whose tests run in Triton's interpreter for minutes, and what needs a GPU.
LEFT_OUT = ("triton_kernels.py", "triton_loss.py", "tiles.py", "__init__.py")
SECONDS = 60  # a mutant that takes longer counts as killed, as it loops
#: Largest share of mutants that may survive.
SURVIVORS = 0.1


def mutation(folder: Path, cases: int, seed: int) -> Tally:
    """Test ``cases`` mutants, drawn evenly from the packages, each in a child process.

    A child has the same libraries loaded, imports the changed module and runs the tests that mirror it: first those
    that are not slow, then all.

    Args:
        folder: an empty folder.
        cases: number of mutants.
        seed: seed of the draw.
    """
    _load_libraries()
    tally, shares, survivors = Tally(seed), {}, []
    for package in PACKAGES:
        everything = _mutants(package)
        drawn = random.Random(seed).sample(everything, min(cases // len(PACKAGES), len(everything)))
        for path in sorted({mutant.path for mutant in drawn}):
            if not _passes(Mutant(path), [str(_test_of(path)), "-m", "not slow"], folder):
                output = (folder / "output.txt").read_text()[-2000:]
                raise RuntimeError(f"{path}: its tests fail without any change: {output}")
        left = [mutant for mutant in drawn if _survives(mutant, folder)]
        alive = [mutant for mutant in left if (mutant.line, str(mutant).split(": ", 1)[1]) not in EQUIVALENT]
        tally.outcomes[f"{package}: killed"] += len(drawn) - len(left)
        tally.outcomes[f"{package}: equivalent"] += len(left) - len(alive)
        tally.outcomes[f"{package}: survived"] += len(alive)
        shares[package] = {"possible": len(everything), "tested": len(drawn), "survived": len(alive)}
        survivors += [str(mutant) for mutant in alive]
    tested = sum(share["tested"] for share in shares.values())
    if len(survivors) > SURVIVORS * tested:
        tally.failures.append({"kind": "mutation", "case": tested, "what": f"{len(survivors)} of {tested} survived"})
    tally.details = {"packages": shares, "survivors": survivors}
    return tally


def _load_libraries() -> None:
    """Import what the tests need besides the package, so that children start at once."""
    if "epagcl.epr" in sys.modules:
        raise RuntimeError("the package is imported already; run this part alone: python -m tests.trust mutation")
    os.environ.setdefault("TRITON_INTERPRET", "1")
    import pandas  # noqa: F401
    import pytest  # noqa: F401
    import scipy.sparse  # noqa: F401
    import sklearn.cluster
    import sklearn.linear_model  # noqa: F401
    import torch
    import torch_geometric.data
    import torch_geometric.utils  # noqa: F401

    torch.set_num_threads(1)  # children are forked, which needs a process without threads


def _mutants(package: str) -> list[Mutant]:
    single = ROOT / "epagcl" / f"{package}.py"
    files = [single] if single.exists() else sorted((ROOT / "epagcl" / package).rglob("*.py"))
    return [mutant for file in files if file.name not in LEFT_OUT for mutant in mutants_of(file)]


def _survives(mutant: Mutant, folder: Path) -> bool:
    """Return whether the tests pass with a changed module."""
    test = str(_test_of(mutant.path))
    alive = _passes(mutant, [test, "-m", "not slow"], folder) and _passes(mutant, [test, "-m", "slow"], folder)
    print(f"{'survived' if alive else 'killed'}: {mutant}", file=sys.stderr, flush=True)
    return alive


def _test_of(path: str) -> Path:
    """Return the file of the tests that mirror a module."""
    relative = Path(path).relative_to("epagcl")
    return ROOT / "tests" / relative.with_name(f"test_{relative.name}")


def _passes(mutant: Mutant, arguments: list[str], folder: Path) -> bool:
    """Run pytest in a child process with the changed module. Return whether no test failed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.meta_path.insert(0, _Changed(mutant))
            import pytest

            plain = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={folder}/pytest"]
            code = int(pytest.main([*plain, f"--rootdir={ROOT}", *arguments]))
        finally:
            os._exit(code)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) in (0, 5)  # 5: no tests were selected
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


class _Changed(SourceLoader):
    """Finds one module, and loads it from its changed source."""

    def __init__(self, mutant: Mutant):
        self.path = str(ROOT / mutant.path)
        self.name = mutant.path.removesuffix(".py").replace("/", ".")
        self.source = mutant.change[0].encode()

    def find_spec(self, name: str, path: Any, target: object = None) -> ModuleSpec | None:
        """Return the spec of the changed module, and of no other."""
        if name != self.name:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None
        spec.loader = self
        return spec

    def get_data(self, path: str) -> bytes:
        """Return the changed source; there is no cached bytecode."""
        if path != self.path:
            raise OSError
        return self.source

    def get_filename(self, name: str) -> str:
        """Return the file that the module stands for."""
        return self.path
