"""Which engine the ranks talk by: NCCL if every rank has a GPU of its own, else Gloo."""

from typing import Any

import torch

from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.core.torchrun import local_rank, local_ranks

GLOO, NCCL = "gloo", "cpu:gloo,cuda:nccl"


def choose_backend(device: str, store: Any, rank: int, size: int) -> str:
    """Return the backend that all ranks use, and select the GPU of this process.

    With ``"auto"``, all ranks use their CPUs if one of them has no GPU of its own, and a line says so.

    Args:
        device: the device that the user chose: auto, cpu or cuda.
        store: the store that the ranks share, by which they agree.
        rank: number of this process.
        size: number of processes.

    Examples:
        >>> choose_backend("cpu", store=None, rank=0, size=2)
        'gloo'
    """
    if device == "cpu":
        return GLOO
    ranks, gpus = local_ranks(), torch.cuda.device_count() if torch.cuda.is_available() else 0
    if ranks > gpus and device != "auto":
        raise InputError(f"{ranks} ranks on a machine with {gpus} GPUs; start at most {gpus}, or use device='cpu'")
    store.set(f"gpu/{rank}", "1" if ranks <= gpus else "0")
    lacking = [other for other in range(size) if store.get(f"gpu/{other}") != b"1"]
    if not lacking:
        torch.cuda.set_device(local_rank())
        return NCCL
    if rank == 0 and gpus:
        if ranks > gpus:
            words = f"{ranks} ranks on a machine with {gpus} GPU{'s' * (gpus > 1)}"
        else:
            words = f"no GPU for {'rank' if len(lacking) == 1 else 'ranks'} {', '.join(map(str, lacking))}"
        log.warning("%s: all ranks use the CPU; start one rank per GPU to use GPUs", words)
    return GLOO
