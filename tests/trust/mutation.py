"""Mutation testing of the mathematics: a changed formula must fail a test that mirrors its module."""

import importlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
import traceback
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from tests.trust.cases import Tally
from tests.trust.mutants import ROOT, Mutant, mutants_of

#: Survivors that no result can tell from the original: the line, the change (None: any), and the reason.
EQUIVALENT: dict[tuple[str, str | None], str] = {
    ("return torch.where(degree > 0, degree, 1)", "1 → 2"): "of isolated nodes, which have no edges to weigh",
    ("size = min(isqrt(2 * l - 1) + 1 if l else 0, degree.numel())  # ⌈√(2l)⌉ in integer arithmetic", "0 → 1"): (
        "one node has no pairs, as none has"
    ),
    ("size = min(isqrt(2 * l - 1) + 1 if l else 0, degree.numel())  # ⌈√(2l)⌉ in integer arithmetic", "1 → 2"): (
        "2l − 1 = 4·num_pairs − 1 is no square"
    ),
    ("return torch.argsort(degree, descending=True, stable=True)[:size].sort().values", "True → False"): (
        "PyTorch's sort on CPUs is stable anyway; without descending=True tests fail"
    ),
    (
        "weight = None if graph.weight is None else torch.cat([graph.weight, graph.weight[:1]])[place]",
        "1 → 2",
    ): "the padding is not read beyond its first entry",
    ("present = torch.cat([edges, edges.new_full((1,), -1)])[place] == key", "1 → 2"): (
        "the padding is not read beyond its first entry, and neither −1 nor −2 is the number of a pair"
    ),
    ("found = float(w.max() if best is max else w.min()) if w.numel() else 0.0", "0.0 → 1.0"): (
        "without absent pairs, there is nothing that the range is used for"
    ),
    (
        "weight = None if self.weight is None else F.pad(self.weight, (0, 1), value=1.0)[pair[mask]]",
        "1 → 2",
    ): "pairs are numbered from 0 to P, the number of weights; entry P + 1 of the padding is never read",
    ("mask = F.pad(sampler.kept(epoch), (0, 1), value=True)[pair]  # the last entry: self-loops", "1 → 2"): (
        "the padding is not read beyond its first entry"
    ),
    (
        "if not has_triton(first.counter.device) or first.whole_counter is not first.counter:",
        "not has_triton(first.counter.device) → not not has_triton(first.counter.device)",
    ): "the kernel draws the same views, which a test compares",
    ("ones = w.new_ones(pattern.shape[0], 1)", "0 → 1"): "the matrix is square",
    (
        "FIRST_ENDS = 256  # nodes of lowest degree among which the largest weight of a candidate is searched first",
        "256 → 257",
    ): "the search ends if a bound shows that no other pair is better, or with all pairs: only its time depends on it",
    ("self._kept += [e] if self.keeps else []", "[e] if self.keeps else [] → [e] if not self.keeps else []"): (
        "a tile that is not kept is computed again, from the same rows: only time and memory depend on it"
    ),
    (
        "x = torch.cat([x - x.mean(dim=0), torch.ones_like(x[:, :1])], dim=1)  # the last column sums the weights",
        "1 → 2",
    ): "divided by the last column, a second one is 1 in every row, and 0 after centring",
    ("num_rows = matrix.shape[0]", "0 → 1"): "the matrix is Â, which is square",
    ("best = z.new_full((runs, len(rule.decays)), -1.0)", "1.0 → 2.0"): (
        "accuracies are at least 0, so that the first step is better than any negative start"
    ),
    **dict.fromkeys(
        [
            ("part = self.samplers[0].part", "0 → 1"),
            ("return counter, self_looped_entries(counter, self.samplers[0].num_nodes)", "0 → 1"),
        ],
        "all views have the same nodes",
    ),
    **dict.fromkeys(
        [
            ("whitened = torch.linalg.solve_triangular(factors[0], cross, upper=False)", "False → True"),
            ("whitened = torch.linalg.solve_triangular(factors[1], whitened.T, upper=False).T", "False → True"),
        ],
        "the scores are principal components, which are uncorrelated, so that the factor is diagonal",
    ),
    ("a_hat = alpha_drop(q, pairs, weight) / 2  # α counts both directions of the edge, Â one", "2 → 3"): (
        "rates are shares, in which the scale of Â cancels"
    ),
    ("return SparseMatrix(rowptr_of(row, n), col.int(), keep[0], (n, n), symmetric=True), keep", "True → False"): (
        "only its pattern is used"
    ),
    **dict.fromkeys(
        [
            (
                "valid = ((u[:, -1] > _NO_WEIGHT) & (v[:, -1] > _NO_WEIGHT)).nonzero().flatten()",
                f"{name}[:, -1] > _NO_WEIGHT → {name}[:, -1] >= _NO_WEIGHT",
            )
            for name in ("u", "v")
        ],
        "the limit only stands for 0 after rounding; no sum of weights is equal to it",
    ),
    ("MARGIN = 16.0  # the distance of the largest exponent from 0", "16.0 → 17.0"): "only rounding depends on it",
    **dict.fromkeys(
        [
            (
                "return torch.unique(low * data.num_nodes + high).numel()",
                "low * data.num_nodes + high → low * data.num_nodes - high",
            ),
            (
                "return torch.unique(low * data.num_nodes + high).numel()",
                "low * data.num_nodes → low / data.num_nodes",
            ),
        ],
        "different pairs have different numbers in both",
    ),
    (
        "weight = torch.ones_like(graph.pairs[0], dtype=scale.dtype) if graph.weight is None else graph.weight",
        "0 → 1",
    ): "both rows have the same length",
    ("size = min(4 * size, order.numel())", "4 → 5"): "only the time depends on it",
    (
        "while sum(weights) < 1 - tolerance:",
        "sum(weights) < 1 - tolerance → sum(weights) <= 1 - tolerance",
    ): "no time gives a sum that is equal to it after rounding",
    **dict.fromkeys(
        [
            ("TILE = 768  # two bf16 tiles and their operands fit in a core's cache", None),
            ('TILE = {"cpu": 768, "cuda": 8192, "mps": 4096}', None),
            ("KEEP_BYTES = 128 * 2**20", None),
            ("for rows, columns, s in upper_tiles(h, TILE.get(h.device.type, 2048), fresh=False):", "2048 → 2049"),
            ("MIN_ROWS = 128  # with fewer rows, calling the products takes longer than the products", None),
            ("_MAX_ENTRIES = 2**24", None),
            (
                "return torch.cat([(unit[i] * unit[j]).sum(1) for i, j in pairs.split(2**20, dim=1)])",
                "2 → 3",
            ),  # 3**20 pairs at a time; each cosine is a sum over one pair
            ("for classes in graph.y.unique().split(max(1, _MAX_ENTRIES // num_nodes)):", None),
            ("if z.shape[0] // groups <= min(tile, 1024):", None),
            ("step = min(size, max(1, PANEL // (groups * size)))", None),
            (
                "PANEL = 2**25  # similarities in a panel: enough to occupy a GPU; on a CPU all sizes are equally fast",
                None,
            ),
        ],
        "only time and memory depend on it",
    ),
}
PACKAGES = ("epr", "views", "losses", "evaluation", "diffusion")
#: Files that are left out: kernels, whose tests run in Triton's interpreter for minutes, and what needs a GPU.
LEFT_OUT = ("ring_kernels.py", "triton_kernels.py", "triton_loss.py", "triton_ring.py", "tiles.py", "__init__.py")
SECONDS = 120  # of CPU time; a mutant that takes longer counts as killed, as it loops
LONGEST = 1800  # of wall-clock time, on a busy machine; a longer child is an error
#: Largest share of mutants that may survive.
SURVIVORS = 0.1


def mutation(folder: Path, cases: int, seed: int) -> Tally:
    """Test ``cases`` mutants, drawn evenly from the packages, each in a child process.

    A child has the same libraries loaded, imports the changed module and runs the tests that mirror it, first those
    that are not slow. Survivors then meet the doctests of their module, the quick tests of its package, and those of
    the public interface. All these are part of ``make test``.

    Args:
        folder: an empty folder.
        cases: number of mutants.
        seed: seed of the draw.
    """
    _load_libraries()
    tally, shares, survivors = Tally(seed), {}, []
    everything = {package: _mutants(package) for package in PACKAGES}
    draws = {
        package: random.Random(seed).sample(mutants, min(cases // len(PACKAGES), len(mutants)))
        for package, mutants in everything.items()
    }
    _check_unchanged({mutant.path for drawn in draws.values() for mutant in drawn}, folder)
    for package, drawn in draws.items():
        left = [mutant for mutant in drawn if _survives(mutant, folder)]
        alive = [mutant for mutant in left if not _is_equivalent(mutant)]
        tally.outcomes[f"{package}: killed"] += len(drawn) - len(left)
        tally.outcomes[f"{package}: equivalent"] += len(left) - len(alive)
        tally.outcomes[f"{package}: survived"] += len(alive)
        shares[package] = {"possible": len(everything[package]), "tested": len(drawn), "survived": len(alive)}
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
    import torch.distributed
    import torch_geometric.data
    import torch_geometric.utils  # noqa: F401

    torch.set_num_threads(1)  # children are forked, which needs a process without threads


def _mutants(package: str) -> list[Mutant]:
    single = ROOT / "epagcl" / f"{package}.py"
    files = [single] if single.exists() else sorted((ROOT / "epagcl" / package).rglob("*.py"))
    return [mutant for file in files if file.name not in LEFT_OUT for mutant in mutants_of(file)]


def _check_unchanged(paths: set[str], folder: Path) -> None:
    """Raise if the quick tests of these modules fail without any change. They run in one child, to save its start."""
    tests = sorted(str(_test_of(path)) for path in paths)
    if not _passes(Mutant(min(paths)), [*tests, "-m", "not slow and not long"], folder, seconds=SECONDS * len(tests)):
        raise RuntimeError(f"tests fail without any change: {(folder / 'output.txt').read_text()[-2000:]}")


def _survives(mutant: Mutant, folder: Path) -> bool:
    """Return whether the tests pass with a changed module."""
    test = _test_of(mutant.path)
    together = test.parent if test.parent != ROOT / "tests" else test
    tiers = [
        [str(test), "-m", "not slow and not long"],
        [str(test), "-m", "slow and not long"],
        [str(ROOT / mutant.path), str(together), str(ROOT / "tests/test_public_api.py"), "-m", "not slow and not long"],
    ]
    alive = all(_passes(mutant, tier, folder) for tier in tiers)
    print(f"{'survived' if alive else 'killed'}: {mutant}", file=sys.stderr, flush=True)
    return alive


def _is_equivalent(mutant: Mutant) -> bool:
    change = str(mutant).split(": ", 1)[1]
    return (mutant.line, change) in EQUIVALENT or (mutant.line, None) in EQUIVALENT


def _test_of(path: str) -> Path:
    """Return the file of the tests that mirror a module."""
    relative = Path(path).relative_to("epagcl")
    return ROOT / "tests" / relative.with_name(f"test_{relative.name}")


def _passes(mutant: Mutant, arguments: list[str], folder: Path, seconds: int = SECONDS) -> bool:
    """Run pytest in a child process with the changed module. Return whether no test failed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            changed = _Changed(mutant)
            sys.meta_path.insert(0, changed)
            importlib.import_module(changed.name)  # before pytest reads its doctests, which would import it unchanged
            # Ranks are forked from this process: a server of processes would import the module without the change.
            context = multiprocessing.get_context
            multiprocessing.get_context = lambda method=None: context("fork" if method == "forkserver" else method)
            import pytest

            plain = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={folder}/pytest"]
            code = int(pytest.main([*plain, f"--rootdir={ROOT}", *arguments]))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) in (0, 5)  # 5: no tests were selected
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise TimeoutError(f"{mutant}: its tests took more than {LONGEST} s")


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
