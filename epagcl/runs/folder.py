"""The run folder: claiming it for a run, and checking that a resumed run is the same run."""

import os
from pathlib import Path
from typing import Any

from epagcl.core.config import current_settings, read_config, write_config
from epagcl.core.errors import InputError
from epagcl.methods.base import Method

CHECKPOINT = "checkpoint.safetensors"
CONFIG = "config.toml"
METRICS = "metrics.json"

#: The files that a run may write.
RUN_FILES = (
    CONFIG,
    METRICS,
    "history.csv",
    "embeddings.npy",
    "embeddings.ids.txt",
    "model.safetensors",
    "nodes.csv",
    "report.json.gz",
    "report.html",
    "training.png",
    "embedding.png",
    "README.md",
    CHECKPOINT,
)
#: The files that identify a run folder. A folder without any of them is never overwritten.
RUN_MARKS = (CONFIG, METRICS, "model.safetensors", "report.json.gz", CHECKPOINT)


def claim(
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    seeds: int = 1,
    option: str = "folder",
    make: bool = True,
) -> None:
    """Prepare a folder for a run. Raise if it holds another run or other files.

    Args:
        folder: the run folder; created with its parents.
        resume: continue the run in the folder, which must exist.
        overwrite: remove the files of the run in the folder; other files stay.
        seeds: number of seeds of the run. Several seeds have a subfolder ``seed-*`` each.
        option: name of the argument in messages: ``folder``, or an option such as ``--out``.
        make: if False, only check and change nothing.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> claim(folder)
        >>> folder.is_dir()
        True
    """
    on_command_line = option.startswith("--")
    resume_flag, overwrite_flag = ("--resume", "--overwrite") if on_command_line else ("resume=True", "overwrite=True")
    if resume:
        several = any(folder.glob(f"seed-*/{CONFIG}"))
        if several != (seeds > 1) or not (several or (folder / CONFIG).is_file()):
            kind = "of several seeds" if seeds > 1 else "of one seed"
            raise InputError(f"{folder}: no run {kind} to resume; leave out {resume_flag} to start one")
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a folder; give another {option}")
    if folder.is_dir() and any(folder.iterdir()):
        if not any((old / name).exists() for old in (folder, *folder.glob("seed-*")) for name in RUN_MARKS):
            raise InputError(f"{folder}: holds other files and no run; give another {option}")
        if not overwrite:
            resumable = f"{resume_flag} to continue it, " if option in ("folder", "--out") else ""
            raise InputError(f"{folder}: already exists; give another {option}, {resumable}or {overwrite_flag}")
    if make:
        _remove_run_files(folder)
        _make_writable(folder, option)


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
                difference = "another graph" if key == "fingerprint" else f"{key} = {before}, now {key} = {value}"
                raise InputError(f"{folder}: was started with {difference}; resume it unchanged, or overwrite it")


def _remove_run_files(folder: Path) -> None:
    """Remove the files of an earlier run, also those of its seeds and of TensorBoard; other files stay."""
    if not folder.is_dir():
        return
    for old in (*folder.glob("seed-*"), folder):
        for name in (*RUN_FILES, *(event.name for event in old.glob("events.out.tfevents.*"))):
            (old / name).unlink(missing_ok=True)
        if old != folder and old.is_dir() and not any(old.iterdir()):
            old.rmdir()


def _make_writable(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be created ({error.strerror}); give another {option}") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"{folder}: not writable; give another {option}")
