"""Several ranks on one machine, for tests: processes that share a Gloo group."""

import multiprocessing
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from epagcl.core.hardware import force_bf16
from epagcl.distributed.group import Ranks, _sharing

TIMEOUT = 180.0  # the server of processes imports PyTorch first, which takes long on a busy machine
#: Processes are forked from a server that has imported these once.
PRELOADED = ["torch", "torch_geometric.data", "epagcl.methods", "tests.ranks"]


def on_ranks(size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return ``function(ranks, *arguments)`` of each rank. The function is at the top of a module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with _without_gpus():  # the processes have the environment of their server, which the first call starts
        forkserver.ensure_running()
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            context.Process(target=_work, args=(rank, size, folder, function, arguments)) for rank in range(size)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(TIMEOUT)
            if process.is_alive():
                process.kill()
        files = [Path(folder, f"{rank}.pt") for rank in range(size)]
        ended = {rank: process.exitcode for rank, process in enumerate(processes)}
        assert all(file.exists() for file in files), f"a rank has no result; exit codes by rank: {ended}"
        results, errors = zip(*(torch.load(file, weights_only=False) for file in files), strict=True)
        # If a rank fails, the others lose the connection to it, which is not the cause.
        for error in sorted(filter(None, errors), key=lambda text: "Connection closed" in text):
            raise AssertionError(error)
        return list(results)


@contextmanager
def _without_gpus() -> Iterator[None]:
    """Hide the GPUs, of which there may be fewer than ranks, from processes that start in this context."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        patch.setenv("TRITON_INTERPRET", "1")  # kernels run on the CPU
        yield


def _work(rank: int, size: int, folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    result, error = None, None
    try:
        store = dist.FileStore(f"{folder}/store", size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=TIMEOUT / 2))
        ranks = Ranks(rank, size)
        with _sharing(ranks), force_bf16(False):
            result = function(ranks, *arguments)
        dist.barrier()
    except Exception:
        error = traceback.format_exc()
    torch.save((result, error), f"{folder}/{rank}.pt")
    if dist.is_initialized() and error is None:
        dist.destroy_process_group()
