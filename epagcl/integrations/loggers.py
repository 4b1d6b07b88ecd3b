"""Training curves in TensorBoard and Weights & Biases: callbacks for ``fit(callback=...)``."""

import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from epagcl.core.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from epagcl.training.history import Row

__all__ = ["NAMES", "Logger", "check_logger", "open_logger", "tensorboard", "wandb"]

NAMES = ("tensorboard", "wandb")


class Logger(ABC):
    """A training callback that logs each epoch, and a context manager that closes the log.

    On leaving the context, the settings and ``final`` are logged. If the context ends in an exception, only the curves
    are kept.

    Attributes:
        final: the last value of each column of the history. Add further values, such as an accuracy, to it.

    Examples:
        >>> class Printer(Logger):
        ...     def write(self, epoch, values):
        ...         print(epoch, values)
        ...     def close(self, finished=True):
        ...         print("final:", self.final)
        >>> with Printer() as log:
        ...     log({"epoch": 1, "loss": 2.5, "effective_rank": None})
        1 {'loss': 2.5}
        final: {'loss': 2.5}
    """

    def __init__(self) -> None:
        self.final: dict[str, Any] = {}

    def __call__(self, row: "Row") -> None:
        """Log the history row of an epoch; None values, which were not measured, are left out."""
        columns = cast(Mapping[str, float | None], row)
        values = {key: value for key, value in columns.items() if key != "epoch" and value is not None}
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
        """Log the values of an epoch."""

    @abstractmethod
    def close(self, finished: bool = True) -> None:
        """Close the log; if training has ``finished``, first log the settings and ``final``."""


def tensorboard(folder: str | Path, config: dict[str, Any] | None = None) -> Logger:
    """Return a logger that writes curves for ``tensorboard --logdir``.

    Args:
        folder: folder of the log.
        config: settings for the HPARAMS tab, such as ``model.settings()``.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tensorboard(folder, {"lr": 0.01}) as log:
        ...         log({"epoch": 1, "loss": 2.5})
        ...     len(list(Path(folder).glob("events.out.tfevents.*")))
        1
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # raised by TensorBoard's dependencies
            import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise MissingExtra("tensorboard", "tensorboard", "logging to TensorBoard") from None
    return _TensorBoard(Path(folder), config or {})


def wandb(project: str, config: dict[str, Any] | None = None, **options: Any) -> Logger:
    """Return a logger that starts a run of Weights & Biases.

    Args:
        project: name of the project.
        config: settings of the run, such as ``model.settings()``.
        options: further arguments of ``wandb.init``.

    Examples:
        >>> with wandb("my-project", model.settings(), mode="offline") as log:  # doctest: +SKIP
        ...     model.fit(data, callback=log)
    """
    try:
        import wandb as package
    except ImportError:
        raise MissingExtra("wandb", "wandb", "logging to Weights & Biases") from None
    return _WandB(package.init(project=project, config=config or {}, **options))


def check_logger(name: str) -> None:
    """Raise if there is no logger of this name or its package is missing. Call it before long work.

    Examples:
        >>> check_logger("tensorboard")
        >>> check_logger("mlflow")
        Traceback (most recent call last):
            ...
        epagcl.core.errors.InputError: no logger 'mlflow'; choose one of tensorboard, wandb
    """
    if name not in NAMES:
        raise InputError(f"no logger {name!r}; choose one of {', '.join(NAMES)}")
    if name not in sys.modules and find_spec(name) is None:
        raise MissingExtra(name, name, "logging")


def open_logger(name: str, folder: Path, settings: dict[str, Any]) -> Logger:
    """Return the logger of this name for a run folder.

    The project in Weights & Biases is the environment variable ``WANDB_PROJECT``, by default ``epagcl``.

    Args:
        name: ``"tensorboard"`` or ``"wandb"``.
        folder: the run folder.
        settings: settings of the run, such as ``model.settings()``.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open_logger("tensorboard", Path(folder), {"lr": 0.01}) as log:
        ...         log({"epoch": 1, "loss": 2.5})
        ...     log.final
        {'loss': 2.5}
    """
    check_logger(name)
    if name == "tensorboard":
        return tensorboard(folder, settings)
    return wandb(os.environ.get("WANDB_PROJECT", "epagcl"), settings, name=folder.name, dir=folder)


class _TensorBoard(Logger):
    def __init__(self, folder: Path, config: dict[str, Any]):
        super().__init__()
        self.folder, self.config = folder, config
        self.columns: set[str] = set()
        self._opened: SummaryWriter | None = None

    def write(self, epoch: int, values: dict[str, float]) -> None:
        self.columns |= set(values)
        for key, value in values.items():
            self._writer(epoch).add_scalar(key, value, epoch)

    def close(self, finished: bool = True) -> None:
        if finished:
            self._write_final(self._writer(None))
        if self._opened is not None:
            self._opened.close()

    def _write_final(self, writer: "SummaryWriter") -> None:
        """Log the settings and the final values; values that are not columns of the history become points or text."""
        from torch.utils.tensorboard.summary import hparams

        settings, final = _plain(self.config), _plain(self.final)
        numbers = {key: value for key, value in final.items() if not isinstance(value, str)}
        for key in final.keys() - self.columns:
            write = writer.add_scalar if key in numbers else writer.add_text
            write(key, final[key])
        # SummaryWriter.add_hparams would create a second run in a subfolder.
        for part in hparams(settings, numbers):
            writer.file_writer.add_summary(part)  # type: ignore[attr-defined]  # typed as always None

    def _writer(self, epoch: int | None) -> "SummaryWriter":
        """Return the writer. When it is opened, epochs from this one on are purged: a resumed run repeats them."""
        if self._opened is None:
            from torch.utils.tensorboard import SummaryWriter

            self._opened = SummaryWriter(self.folder, purge_step=epoch)
        return self._opened


def _plain(values: dict[str, Any]) -> dict[str, float | str]:
    """Return values that TensorBoard accepts: numbers, and everything else as text; None values are left out."""
    plain = {str(key): _number(value) for key, value in values.items() if value is not None}
    return {key: value if isinstance(value, int | float) else str(value) for key, value in plain.items()}


def _number(value: Any) -> Any:
    """Return the number in a NumPy scalar or in an array or tensor of size one; other values unchanged."""
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
