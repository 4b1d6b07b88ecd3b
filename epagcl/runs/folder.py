"""The run folder: claiming it for a run, and checking that a resumed run is the same run."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, cast

from epagcl.core.config import current_settings, read_config, write_config
from epagcl.core.errors import InputError
from epagcl.core.files import is_leftover, locked, remove_leftovers
from epagcl.core.outputs import CHECKPOINT, CONFIG, METRICS, RUN_FILES, RUN_MARKS, check_folder
from epagcl.data.identity import is_former_fingerprint
from epagcl.methods.base import Method

LOCK = ".lock"  # held while a process writes to the folder


class GraphSource(TypedDict, total=False):
    """The origin of a run's graph: its name and fingerprint, and the user's files if it was read from files."""

    name: str
    fingerprint: str
    file: str
    edges: str
    features: str
    labels: str
    nodes: str
    source: str
    target: str
    weight: str
    type: str
    directed: str
    id: str
    label: str
    bipartite: bool
    columns_as: str


class RunConfig(TypedDict, total=False):
    """The tables of a run's ``config.toml``."""

    method: dict[str, Any]
    data: GraphSource
    evaluation: dict[str, Any]
    seeds: dict[str, list[int]]


def claim(
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    seeds: int = 1,
    argument: str = "folder",
    resumable: bool = True,
    make: bool = True,
    option: str | None = None,
) -> None:
    """Prepare a folder for a run. Raise if it holds another run or other files.

    Args:
        folder: the run folder; created with its parents.
        resume: continue the run in the folder, which must exist.
        overwrite: remove the files of the run in the folder; other files stay.
        seeds: number of seeds of the run. Several seeds have a subfolder ``seed-*`` each.
        argument: name of the caller's argument with the folder, for messages.
        resumable: whether the caller can resume a run, for messages.
        make: if False, only check and change nothing.
        option: deprecated, use ``argument``.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     claim(Path(root, "run"))
        ...     Path(root, "run").is_dir()
        True
    """
    if option is not None:
        warnings.warn("the argument option of claim is now argument", DeprecationWarning, stacklevel=2)
        argument = option.removeprefix("--").replace("-", "_")
    if resume:
        several = any(folder.glob(f"seed-*/{CONFIG}"))
        if several != (seeds > 1) or not (several or (folder / CONFIG).is_file()):
            kind = "of several seeds" if seeds > 1 else "of one seed"
            raise InputError(f"{folder}: no run {kind} to resume; leave out resume=True to start one")
        return
    check_folder(folder, argument)
    for used in (folder, *folder.glob("seed-*")):
        if (used / LOCK).exists():
            with writing(used):
                pass
    if folder.is_dir() and not all(file.name == LOCK or is_leftover(file) for file in folder.iterdir()):
        if not any((old / name).exists() for old in (folder, *folder.glob("seed-*")) for name in RUN_MARKS):
            raise InputError(f"{folder}: holds other files and no run; give another {argument}=")
        if not overwrite:
            choices = "resume=True to continue it, or overwrite=True" if resumable else "or overwrite=True"
            raise InputError(f"{folder}: already exists; give another {argument}=, {choices}")
    if make:
        _remove_run_files(folder)
        _make_writable(folder, argument)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder. Raise if another process or thread writes to it.

    Args:
        folder: the run folder; created with its parents.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root, writing(Path(root, "run")):
        ...     Path(root, "run").is_dir()
        True
    """
    with locked(folder / LOCK) as held:
        if not held:
            raise InputError(f"{folder}: another process is writing this run; wait for it, or give another folder=")
        yield


def begin_run(folder: Path, method: Method, sections: dict[str, dict[str, Any]]) -> None:
    """Write the configuration of a new run. Raise if a resumed run has another method, graph or evaluation.

    Args:
        folder: the run folder.
        method: the method with its settings.
        sections: further tables of the configuration: ``data`` with the graph's fingerprint, and ``evaluation``.
    """
    config = folder / CONFIG
    if not config.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_config(config, {"method": method.settings(), **sections})
        return
    saved = read_config(config)
    saved["method"] = current_settings(saved.get("method", {}))
    current = {
        "method": method.identity(),
        "evaluation": sections.get("evaluation", {}),
        "data": {"fingerprint": sections["data"]["fingerprint"]},
    }
    for section, values in current.items():
        for key, value in values.items():
            before = saved.get(section, {}).get(key)
            if before != value:
                difference = f"{key} = {before}, now {key} = {value}"
                if key == "fingerprint":
                    difference = "another graph (other edges, features, labels, splits, ids or names)"
                    if is_former_fingerprint(before):
                        raise InputError(
                            f"{folder}: was started by an earlier version, which does not identify its graph; "
                            "overwrite it"
                        )
                raise InputError(f"{folder}: was started with {difference}; resume it unchanged, or overwrite it")


def run_config(folder: Path) -> RunConfig:
    """Return the configuration of a run."""
    return cast(RunConfig, read_config(folder / CONFIG))


def _remove_run_files(folder: Path) -> None:
    """Remove the files of an earlier run, also those of its seeds and of TensorBoard; other files stay."""
    if not folder.is_dir():
        return
    for old in (*folder.glob("seed-*"), folder):
        for name in (*RUN_FILES, *(event.name for event in old.glob("events.out.tfevents.*"))):
            (old / name).unlink(missing_ok=True)
        remove_leftovers(old)
        if old != folder and old.is_dir() and not any(old.iterdir()):
            old.rmdir()


def _make_writable(folder: Path, argument: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created ({error.strerror}); give another {argument}=") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"{folder}: not writable; give another {argument}=")
