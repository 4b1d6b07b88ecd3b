"""Training curves for TensorBoard and Weights & Biases: callbacks for ``fit(callback=...)``."""

import os
import sys
import warnings
from abc import ABC, abstractmethod
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from epagcl.core.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from epagcl.training.history import Row

NAMES = ("tensorboard", "wandb")


class Logger(ABC):
    """A callback that writes each epoch's row, and a context that closes it.

    At the end of the context ``final``, the last value of each column, is written beside the settings; other values
    (an accuracy, a name) can be put into it before. A context that ends in an exception keeps the curves alone.
    """

    def __init__(self):
        self.final: dict[str, Any] = {}

    def __call__(self, row: "Row") -> None:
        """Take an epoch's row of the history; what is None was not measured."""
        values = {key: value for key, value in row.items() if key != "epoch" and value is not None}
        self.final |= values
        self.write(row["epoch"], values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(finished=kind is None)

    @abstractmethod
    def write(self, epoch: int, values: dict[str, float]) -> None:
        """Write the values of an epoch."""

    @abstractmethod
    def close(self, finished: bool = True) -> None:
        """Write what remains; if training has ``finished``, also the settings and ``final``."""


def tensorboard(folder: str | Path, config: dict[str, Any] | None = None) -> Logger:
    """Curves in ``folder`` for ``tensorboard --logdir``; ``config``, such as ``model.settings()``, under HPARAMS."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of its own dependencies
            import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise MissingExtra("tensorboard", "tensorboard", "logging to TensorBoard") from None
    return _TensorBoard(Path(folder), config or {})


def wandb(project: str, config: dict[str, Any] | None = None, **options: Any) -> Logger:
    """A Weights & Biases run with these curves and ``config``; ``options`` are those of ``wandb.init``."""
    try:
        import wandb as package
    except ImportError:
        raise MissingExtra("wandb", "wandb", "logging to Weights & Biases") from None
    return _WandB(package.init(project=project, config=config or {}, **options))


def check_logger(name: str) -> None:
    """Raise now, before long work, if there is no such logger or its package is missing."""
    if name not in NAMES:
        raise InputError(f"no logger {name!r}; choose one of {', '.join(NAMES)}")
    if name not in sys.modules and find_spec(name) is None:
        raise MissingExtra(name, name, "logging")


def open_logger(name: str, folder: Path, settings: dict[str, Any]) -> Logger:
    """The logger of a run folder, by name; W&B's project is ``epagcl`` unless ``WANDB_PROJECT`` says otherwise."""
    check_logger(name)
    if name == "tensorboard":
        return tensorboard(folder, settings)
    return wandb(os.environ.get("WANDB_PROJECT", "epagcl"), settings, name=folder.name, dir=folder)


class _TensorBoard(Logger):
    def __init__(self, folder: Path, config: dict[str, Any]):
        super().__init__()
        self.folder, self.config, self.writer = folder, config, None
        self.columns: set[str] = set()

    def write(self, epoch: int, values: dict[str, float]) -> None:
        self._open(epoch)
        self.columns |= set(values)
        for key, value in values.items():
            self.writer.add_scalar(key, value, epoch)

    def close(self, finished: bool = True) -> None:
        if finished:
            from torch.utils.tensorboard.summary import hparams

            self._open(None)
            settings, final = _plain(self.config), _plain(self.final)
            numbers = {key: value for key, value in final.items() if not isinstance(value, str)}
            for key in final.keys() - self.columns:
                write = self.writer.add_scalar if key in numbers else self.writer.add_text
                write(key, final[key])
            # Not SummaryWriter.add_hparams, which makes a second run in a folder below this one.
            for part in hparams(settings, numbers):
                self.writer.file_writer.add_summary(part)
        if self.writer is not None:
            self.writer.close()

    def _open(self, epoch: int | None) -> None:
        """The writer; a run that goes on from a checkpoint takes back the epochs that were written after it."""
        if self.writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(self.folder, purge_step=epoch)


def _plain(values: dict[str, Any]) -> dict[str, float | str]:
    """Values as TensorBoard takes them: numbers, and all else as text; without those that are None."""
    plain = {str(key): _number(value) for key, value in values.items() if value is not None}
    return {key: value if isinstance(value, int | float) else str(value) for key, value in plain.items()}


def _number(value: Any) -> Any:
    """The number in an array or tensor of one, such as NumPy's own numbers; all else as it is."""
    size = getattr(value, "numel", lambda: getattr(value, "size", 0))()
    return value.item() if size == 1 and hasattr(value, "item") else value


class _WandB(Logger):
    def __init__(self, run: Any):
        super().__init__()
        self.run = run

    def write(self, epoch: int, values: dict[str, float]) -> None:
        self.run.log(values, step=epoch)

    def close(self, finished: bool = True) -> None:
        if finished:
            self.run.summary.update(self.final)
        self.run.finish(exit_code=int(not finished))
