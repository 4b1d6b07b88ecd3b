"""The state of an installation: versions, devices, kernels, memory, folders, and what to do about what is wrong."""

import importlib
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from epagcl.core.errors import install_command
from epagcl.core.formatting import counted, one_line
from epagcl.core.version import __version__

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[2]  # the repository, if the package is not installed elsewhere
LEAST_MEMORY_GIB = 2.0
LEAST_DISK_GB = 1.0
#: Import names of packages whose import name is not the name with underscores.
IMPORT_NAMES = {"scikit-learn": "sklearn", "umap-learn": "umap"}
#: Extras of developers, which users do not miss.
DEVELOPMENT = ("audit", "docs", "test")
#: Where typer's ``--install-completion`` writes, relative to the home folder.
COMPLETION_FILES = (
    ".bash_completions/epagcl.sh",
    ".zfunc/_epagcl",
    ".config/fish/completions/epagcl.fish",
)
Status = Literal["ok", "missing", "wrong"]


@dataclass(frozen=True)
class Check:
    """One line of the diagnosis.

    Attributes:
        topic: what was checked.
        status: ok, missing or wrong.
        found: what was found.
        fix: what to do; empty if nothing needs to be done.
        needed: whether this package cannot train and embed without it.

    Examples:
        >>> Check("triton", "missing", "no GPU", "", needed=False).status
        'missing'
    """

    topic: str
    status: Status
    found: str
    fix: str = ""
    needed: bool = False


class DiagnosisDict(TypedDict):
    """A :class:`Diagnosis` as plain values."""

    epagcl: str
    healthy: bool
    checks: list[dict[str, str | bool]]


@dataclass(frozen=True)
class Diagnosis:
    """The result of :func:`doctor`.

    Attributes:
        checks: one entry per line.

    Examples:
        >>> print(Diagnosis((Check("disk", "wrong", "0.1 GB free", "free some space"),)))
        wrong    disk: 0.1 GB free; free some space
    """

    checks: tuple[Check, ...]

    @property
    def healthy(self) -> bool:
        """Whether everything that training and embedding need works."""
        return not any(check.needed and check.status != "ok" for check in self.checks)

    def to_dict(self) -> DiagnosisDict:
        """Return the diagnosis as plain values."""
        return {"epagcl": __version__, "healthy": self.healthy, "checks": [asdict(check) for check in self.checks]}

    def __str__(self) -> str:
        return "\n".join(
            f"{check.status:<8} {check.topic}: {check.found}" + (f"; {check.fix}" if check.fix else "")
            for check in self.checks
        )


def doctor(data: Path | str | None = None) -> Diagnosis:
    """Check the installation: versions, devices, kernels, memory, disk, data folder, and a training of two epochs.

    Nothing is installed, downloaded or changed.

    Args:
        data: folder of named graphs; by default ``EPAGCL_DATA``, or else the cache folder.

    Examples:
        >>> diagnosis = doctor()
        >>> diagnosis.healthy, diagnosis.checks[0].topic
        (True, 'python')
    """
    parts: tuple[Callable[[], Iterator[Check]], ...] = (
        _python,
        _packages,
        _extras,
        _devices,
        _resources,
        _training,
        lambda: _data_folder(data),
        lambda: _folders(data),
        _shell,
    )
    return Diagnosis(tuple(check for part in parts for check in _guarded(part)))


def _guarded(part: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """Yield the checks of a part. If a library that the part needs is broken, say so and go on."""
    try:
        yield from part()
    except Exception as error:  # anything: broken installations fail in every way
        name = getattr(part, "__name__", "").strip("_<>").replace("_", " ").replace("lambda", "data folder")
        yield Check(name, "wrong", _reason(error), "mend the packages above, then run `epagcl doctor` again")


def _reason(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}", 200)


def _python() -> Iterator[Check]:
    least = (3, 11)
    works = sys.version_info >= least
    fix = "" if works else "install Python 3.11 or newer"
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Check("python", "ok" if works else "wrong", found, fix, needed=True)
    yield Check("epagcl", "ok", f"{__version__} in {ROOT / 'epagcl'}", needed=True)


def requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Return the required packages with their versions, and those of each extra for users.

    They come from the installed package, or from ``pyproject.toml`` if this is a copy of the repository.

    Examples:
        >>> required, extras = requirements()
        >>> next(line for line in required if line.startswith("torch>")), extras["networkx"]
        ('torch>=2.6', ['networkx>=3.2'])
    """
    project = ROOT / "pyproject.toml"
    if project.is_file():
        table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        extras = table["optional-dependencies"]
        return table["dependencies"], {name: lines for name, lines in extras.items() if name not in DEVELOPMENT}
    lines = importlib.metadata.requires("epagcl") or []
    required = [line for line in lines if "extra ==" not in line]
    names = importlib.metadata.metadata("epagcl").get_all("Provides-Extra") or []
    ends = {name: (f'extra == "{name}"', f"extra == '{name}'") for name in names if name not in DEVELOPMENT}
    return required, {
        name: [line.partition(";")[0].strip() for line in lines if line.endswith(end)] for name, end in ends.items()
    }


def _packages() -> Iterator[Check]:
    from packaging.requirements import Requirement

    for line in requirements()[0]:
        requirement = Requirement(line)
        name = requirement.name
        yield _package(name, str(requirement.specifier))


def _package(name: str, versions: str) -> Check:
    """Check that a required package is there, in a version that works, and can be imported."""
    from packaging.specifiers import SpecifierSet

    install = f"pip install '{name}{versions}'"
    try:
        version = importlib.metadata.version(name)
        module = importlib.import_module(IMPORT_NAMES.get(name, name.replace("-", "_")))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, "missing", "not installed", install, needed=True)
    except Exception as error:  # such as a library that does not fit the system
        return Check(name, "wrong", f"{version} cannot be imported ({_reason(error)})", f"{install} again", needed=True)
    version = str(getattr(module, "__version__", version))
    if not SpecifierSet(versions).contains(version, prereleases=True):
        return Check(name, "wrong", f"{version}, but {versions} is needed", install, needed=True)
    return Check(name, "ok", version, "", needed=True)


def _extras() -> Iterator[Check]:
    from packaging.requirements import Requirement

    for extra, lines in requirements()[1].items():
        wanted = [Requirement(line) for line in lines]
        wanted = [one for one in wanted if one.marker is None or one.marker.evaluate()]
        missing = [
            one.name for one in wanted if find_spec(IMPORT_NAMES.get(one.name, one.name.replace("-", "_"))) is None
        ]
        install = f"{install_command(extra)}, if you need it"
        if missing:
            yield Check(f"extra {extra}", "missing", f"no {', '.join(missing)} (optional)", install)
            continue
        found = {one.name: importlib.metadata.version(one.name) for one in wanted}
        old = [one for one in wanted if not one.specifier.contains(found[one.name], prereleases=True)]
        if old:
            words = ", ".join(f"{one.name} {found[one.name]}, but {one.specifier} is needed" for one in old)
            yield Check(f"extra {extra}", "wrong", words, install_command(extra))
        else:
            words = ", ".join(f"{name} {version}" for name, version in found.items())
            yield Check(f"extra {extra}", "ok", words or "not for this system")


def _devices() -> Iterator[Check]:
    import torch

    from epagcl.core.hardware import has_bf16

    fast = "bf16 instructions" if has_bf16(torch.device("cpu")) else "no bf16 instructions, so float32 products"
    yield Check("cpu", "ok", f"{counted(torch.get_num_threads(), 'thread')}, {fast}", "", needed=True)
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            yield from _gpu(torch.device("cuda", number))
    elif torch.version.cuda is None and shutil.which("nvidia-smi") is not None:
        fix = "install torch for CUDA: https://pytorch.org/get-started"
        yield Check("gpu", "wrong", f"this machine has NVIDIA's driver, but torch {torch.__version__} has no CUDA", fix)
    elif torch.version.cuda is not None and shutil.which("nvidia-smi") is not None:
        fix = "check that nvidia-smi lists a GPU, and that the driver is recent enough for this torch"
        yield Check("gpu", "wrong", f"torch for CUDA {torch.version.cuda} finds no GPU", fix)
    else:
        mps = "; Apple's GPU is there, but sparse products are not (auto uses the CPU)"
        found = "none; training uses the CPU" + mps * torch.backends.mps.is_available()
        yield Check("gpu", "missing", f"{found} (optional)")


def _gpu(device: "torch.device") -> Iterator[Check]:
    """Check one GPU, and that Triton compiles a kernel for it."""
    import torch

    from epagcl.core.hardware import triton_failure

    properties = torch.cuda.get_device_properties(device)
    free, total = (size / 2**30 for size in torch.cuda.mem_get_info(device))
    name = f"gpu {device.index}"
    found = f"{properties.name}, compute capability {properties.major}.{properties.minor}, "
    yield Check(name, "ok", f"{found}{free:.1f} of {total:.1f} GiB free, CUDA {torch.version.cuda}")
    reason = triton_failure(device)
    if reason is None:
        yield Check(f"triton on {name}", "ok", "a kernel was compiled and run")
        return
    fix = f"{install_command('gpu')}; it needs a C compiler (apt install gcc python3-dev); plain PyTorch is used"
    yield Check(f"triton on {name}", "missing" if "not installed" in reason else "wrong", one_line(reason, 200), fix)


def _resources() -> Iterator[Check]:
    from epagcl.core.memory import available_memory

    available = available_memory()
    if available is None:
        yield Check("memory", "ok", "unknown on this system")
    else:
        gib = available / 2**30
        fix = "" if gib >= LEAST_MEMORY_GIB else "close other programs, or use a larger machine"
        yield Check("memory", "wrong" if fix else "ok", f"{gib:.1f} GiB available", fix)
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    fix = "" if free >= LEAST_DISK_GB else "free some space, or work in another folder"
    yield Check("disk", "wrong" if fix else "ok", f"{free:,.1f} GB free in {Path.cwd()}", fix)


def _training() -> Iterator[Check]:
    """Train and embed a small graph, which needs all parts together."""
    try:
        from epagcl.data.generators import block_model
        from epagcl.methods.epagcl import EPAGCL

        graph = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        model = EPAGCL(epochs=2, hidden=8, dim=4, projection=4).fit(graph)
        finite = bool(model.embed(graph).isfinite().all())
        device = next(model.network_.parameters()).device
    except Exception as error:  # anything: this is the question
        yield Check("training", "wrong", _reason(error), "mend what is wrong above", needed=True)
        return
    fix = "" if finite else "try device='cpu', and report it"
    found = f"two epochs on {device}" if finite else f"embeddings on {device} are not finite"
    yield Check("training", "ok" if finite else "wrong", found, fix, needed=True)


def _data_folder(data: Path | str | None) -> Iterator[Check]:
    from epagcl.data.catalogue import data_root, datasets

    root = data_root(data)
    origin = "--data" if data is not None else "EPAGCL_DATA" if os.environ.get("EPAGCL_DATA") else "the default"
    if not root.is_dir():
        given = origin != "the default"
        fix = f"create it, or change {origin}" if given else "graphs are downloaded to it at first use"
        yield Check("data folder", "wrong" if given else "missing", f"{root} ({origin}) does not exist", fix)
        return
    there = [row.name for row in datasets(root) if row.source.startswith("file ") or row.source.endswith(" cache")]
    found = f"{root} ({origin}): {', '.join(there) or 'no graphs yet'}"
    yield Check("data folder", "ok", found, "" if there else "graphs are downloaded to it at first use")


def _folders(data: Path | str | None) -> Iterator[Check]:
    """Check that the folders to which this package and its libraries write can be written to."""
    from epagcl.data.catalogue import data_root

    setting = "set EPAGCL_DATA" if data is None else "set --data"
    folders = {
        "working folder": (Path.cwd(), "run epagcl in a folder that you may write to, or give --out"),
        "temporary folder": (Path(tempfile.gettempdir()), "set TMPDIR to a folder that you may write to"),
        "cache": (data_root(data), f"{setting} to a folder that you may write to; only downloads need it"),
    }
    if find_spec("triton") is not None:
        triton = Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton")
        folders["kernel cache"] = (triton, "set TRITON_CACHE_DIR to a folder that you may write to")
    for topic, (folder, fix) in folders.items():
        existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
        try:
            with tempfile.TemporaryFile(dir=existing):
                pass
        except OSError as error:
            yield Check(topic, "wrong", f"{folder} cannot be written to ({error.strerror})", fix)
        else:
            yield Check(topic, "ok", f"{folder} can be written to")


def _shell() -> Iterator[Check]:
    program = shutil.which("epagcl")
    fix = "" if program else "activate the environment of the installation, or run `python -m epagcl`"
    yield Check("command", "ok" if program else "missing", program or "epagcl is not on the path", fix)
    installed = [name for name in COMPLETION_FILES if (Path.home() / name).is_file()]
    found = ", ".join(f"~/{name}" for name in installed) or "not installed (optional)"
    fix = "" if installed else "epagcl --install-completion, then open a new terminal"
    yield Check("shell completion", "ok" if installed else "missing", found, fix)
