"""The ranks of a distributed run, by ``torch.distributed``: Gloo on CPUs, NCCL on GPUs, started by ``torchrun``."""

import logging
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from epagcl.core.errors import InputError, TrainingError
from epagcl.core.hardware import prefer_cpu
from epagcl.core.log import log
from epagcl.core.torchrun import (
    launched_rank,
    launched_ranks,
    may_restart_apart,
    restarts,
    uses_agent_store,
)
from epagcl.distributed.backend import GLOO, NCCL, choose_backend

#: Seconds that a rank waits for another one; ``EPAGCL_RANK_TIMEOUT`` in the environment overrides it.
RANK_TIMEOUT = 600.0
GRACE_SECONDS = 2.0  # after a timeout, the ranks that still run tell each other that they do
#: Words in the errors of Gloo and NCCL that mean that another rank has died or hangs.
LOST = ("timed out", "timeout", "connection closed", "connection reset", "socket", "broken pipe", "nccl")

APART = (
    "several machines share the store of torchrun, and may not find each other after a restart: "
    "use --rdzv-backend c10d, and set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
)

Plain = TypeVar("Plain")
_active: "Ranks | None" = None  # set by several_ranks


class Ranks:
    """The processes of a distributed run. All of them call the same methods in the same order.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
        sent: bytes that this process has sent, by purpose.
        waited: seconds that this process has waited for others, by purpose.

    Examples:
        >>> ranks = Ranks(rank=0, size=1)
        >>> ranks.sum_(torch.ones(2)).tolist(), ranks.is_first
        ([1.0, 1.0], True)
    """

    def __init__(self, rank: int, size: int):
        self.rank, self.size = rank, size
        self.sent: Counter[str] = Counter()
        self.waited: defaultdict[str, float] = defaultdict(float)
        self._agreed: dict[str, bool] = {}

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which prints and writes."""
        return self.rank == 0

    def sum_(self, tensor: Tensor, purpose: str = "sum") -> Tensor:
        """Add up a tensor over all ranks, in place; every rank has the same result."""
        if self.size > 1:
            with self._waiting(purpose):
                dist.all_reduce(tensor)
            self.sent[purpose] += 2 * (self.size - 1) * tensor.nbytes // self.size
        return tensor

    def shift(self, tensor: Tensor | None, into: Tensor | None, by: int, purpose: str) -> "Transfer":
        """Start to send a tensor to the rank ``by`` places further, and to receive the tensor sent to this rank.

        Args:
            tensor: what to send; None if it is empty, which the receiver knows.
            into: the buffer to receive into; None if nothing comes.
            by: the distance on the ring, positive or negative.
            purpose: a name for the traffic.
        """
        operations = []
        if tensor is not None and tensor.numel():
            operations.append(dist.P2POp(dist.isend, tensor, (self.rank + by) % self.size))
            self.sent[purpose] += tensor.nbytes
        if into is not None and into.numel():
            operations.append(dist.P2POp(dist.irecv, into, (self.rank - by) % self.size))
        works = dist.batch_isend_irecv(operations) if operations else []
        return Transfer(self, works, (tensor, into), purpose)

    def all_to_all(
        self, tensor: Tensor, sent: list[int], received: list[int], purpose: str
    ) -> "tuple[Tensor, Transfer]":
        """Start to send blocks of rows to all ranks.

        Args:
            tensor: the rows for each rank, one block after the other.
            sent: number of rows for each rank.
            received: number of rows from each rank.
            purpose: a name for the traffic.

        Returns:
            The received rows, which may be read once the transfer is complete.
        """
        tensor = tensor.contiguous()
        if self.size == 1:
            return tensor, Transfer(self, [], (tensor,), purpose)
        into = tensor.new_empty(sum(received), *tensor.shape[1:])
        work = dist.all_to_all_single(into, tensor, received, sent, async_op=True)
        self.sent[purpose] += (tensor.shape[0] - sent[self.rank]) * tensor[:1].nbytes
        return into, Transfer(self, [work], (tensor, into), purpose)

    def broadcast_(self, tensor: Tensor, source: int, purpose: str = "broadcast") -> Tensor:
        """Copy a tensor from one rank to all others, in place."""
        if self.size > 1 and tensor.numel():
            with self._waiting(purpose):
                dist.broadcast(tensor, source)
            self.sent[purpose] += tensor.nbytes * (self.rank == source)
        return tensor

    def from_first(self, value: Plain) -> Plain:
        """Return the value of rank 0 on all ranks: numbers, text, tensors on the CPU, or lists and dictionaries."""
        if self.size == 1:
            return value
        values = [value if self.is_first else None]
        with self._waiting("broadcast"):
            dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]  # type: ignore[return-value]

    def on_first(self, function: Callable[[], Plain]) -> Plain:
        """Call a function on rank 0 only, and return its result on all ranks. If it raises, all ranks raise."""
        result: Plain | None = None
        error: Exception | None = None
        if self.is_first:
            try:
                result = function()
            except Exception as raised:
                error = raised
        result, error = self.from_first((result, error))
        if error is not None:
            raise error
        return result  # type: ignore[return-value]

    def gathered(self, value: Plain) -> list[Plain]:
        """Return the values of all ranks, in their order."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self._waiting("gather"):
            dist.all_gather_object(values, value)
        return values

    def all_agree(self, name: str, flag: bool) -> bool:
        """Return whether a flag is true on all ranks. The answer is kept under its name."""
        if name not in self._agreed:
            self._agreed[name] = all(self.gathered(flag))
        return self._agreed[name]

    @contextmanager
    def _waiting(self, purpose: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.waited[purpose] += time.perf_counter() - start


class Transfer:
    """A transfer that has been started. The tensors stay alive until it is complete.

    Examples:
        >>> Transfer(Ranks(0, 1), [], (), "nothing").wait()
    """

    def __init__(self, ranks: Ranks, works: list[Any], tensors: tuple[Tensor | None, ...], purpose: str):
        self.ranks, self.works, self.tensors, self.purpose = ranks, works, tensors, purpose

    def wait(self) -> None:
        """Wait until the transfer is complete; on a GPU, make the current stream wait."""
        with self.ranks._waiting(self.purpose):
            for work in self.works:
                work.wait()
        self.works = []


def active_ranks() -> Ranks | None:
    """Return the ranks that share the current work, or None in a process that works alone.

    Examples:
        >>> active_ranks() is None
        True
    """
    return _active


@contextmanager
def several_ranks(device: str = "auto") -> Iterator[Ranks]:
    """Join the ranks that ``torchrun`` has started. Within this context, ``fit`` and ``embed`` share their work.

    All ranks must make the same calls on the same graph; callbacks of ``fit`` are called on every rank. A process that
    was started in another way is rank 0 of 1, and works as usual. If a rank dies or hangs, the others raise
    :class:`~epagcl.core.errors.TrainingError` after ``EPAGCL_RANK_TIMEOUT`` seconds at the latest, by default 600.

    Args:
        device: ``"cpu"`` uses Gloo. ``"cuda"`` uses NCCL and the GPU with the local number of each process, as
            ``"auto"`` does if there are enough GPUs.

    Examples:
        >>> with several_ranks() as ranks:  # without torchrun
        ...     ranks.size
        1
    """
    rank, size = launched_rank(), launched_ranks()
    if size == 1:
        yield Ranks(0, 1)
        return
    seconds = rank_timeout()
    timeout = timedelta(seconds=seconds)
    store = None
    try:
        shared, rank, size = next(rendezvous("env://", timeout=timeout))
        # A store that outlives a restart has the addresses of processes that have died.
        attempt = restarts() if uses_agent_store() else 0
        store = dist.PrefixStore(f"epagcl-{attempt}", shared)  # type: ignore[attr-defined]
        backend = choose_backend(device, store, rank, size)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
        ranks = Ranks(rank, size)
        with _sharing(ranks), _only_first_logs(ranks), prefer_cpu(backend == GLOO):
            if may_restart_apart():
                log.warning(APART)
            yield ranks
        if backend == NCCL:
            _leave(store, ranks, seconds)
    except (RuntimeError, ConnectionError) as error:
        if isinstance(error, TrainingError) or not _is_lost(error):
            raise
        raise TrainingError(_lost_message(store, rank, size, seconds, error)) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


@contextmanager
def _only_first_logs(ranks: Ranks) -> Iterator[None]:
    """Log what is not an error on rank 0 only."""
    level = log.level
    if not ranks.is_first:
        log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _leave(store: Any, ranks: Ranks, seconds: float) -> None:
    """Wait until all ranks have finished, since they must destroy a group of NCCL at once; rank 0 may be the last.

    Rank 0 may have the store, so it leaves after the others; if one of them has died by now, the work is done anyway.
    """
    if ranks.is_first:
        store.add("finished", 1)
    deadline = time.monotonic() + seconds
    goal = ("left", ranks.size - 1) if ranks.is_first else ("finished", 1)
    while store.add(goal[0], 0) < goal[1]:
        if time.monotonic() > deadline:
            if ranks.is_first:
                return
            raise RuntimeError("timed out: rank 0 has not finished")
        time.sleep(0.2)
    if not ranks.is_first:
        store.add("left", 1)


@contextmanager
def _sharing(ranks: Ranks | None) -> Iterator[None]:
    """Make some ranks the active ones within this context; None: this process works alone."""
    global _active
    before, _active = _active, ranks
    try:
        yield
    finally:
        _active = before


@contextmanager
def alone() -> Iterator[None]:
    """Let this process work by itself within this context, without the other ranks.

    Examples:
        >>> with alone():
        ...     active_ranks() is None
        True
    """
    with _sharing(None):
        yield


def rank_timeout() -> float:
    """Return the number of seconds that a rank waits for another one.

    Examples:
        >>> rank_timeout() > 0
        True
    """
    text = os.environ.get("EPAGCL_RANK_TIMEOUT")
    try:
        seconds = RANK_TIMEOUT if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InputError(f"EPAGCL_RANK_TIMEOUT={text!r}: give a number of seconds above 0")
    return seconds


def _is_lost(error: Exception) -> bool:
    return isinstance(error, ConnectionError) or any(word in str(error).lower() for word in LOST)


def _lost_message(store: Any, rank: int, size: int, timeout: float, error: Exception) -> str:
    """Return which ranks no longer answer. The others tell each other through the store of ``torchrun``."""
    missing = []
    try:
        store.set(f"runs/{rank}", "1")
        time.sleep(GRACE_SECONDS)
        missing = [other for other in range(size) if not store.check([f"runs/{other}"])]
    except Exception as second:  # the store is lost as well
        log.debug("the store does not answer: %s", second)
    who = f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}" if missing else "another rank"
    words = "it hangs or has died; see its" if len(missing) < 2 else "they hang or have died; see their"
    timed_out = "timed out" in str(error).lower() or "timeout" in str(error).lower()
    wait = f" within {timeout:g} s" if timed_out else ""
    return f"rank {rank} of {size}: no answer from {who}{wait}: {words} output, then --resume the run"
