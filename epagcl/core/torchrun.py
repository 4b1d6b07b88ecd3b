"""What ``torchrun`` and Slurm tell a process through its environment. Nothing is imported for it."""

import os


def launched_ranks() -> int:
    """Return the number of processes that ``torchrun`` has started; 1 without it.

    Examples:
        >>> launched_ranks()
        1
    """
    return _number("WORLD_SIZE", 1) if "RANK" in os.environ else 1


def launched_rank() -> int:
    """Return the number of this process among them, from 0.

    Examples:
        >>> launched_rank()
        0
    """
    return _number("RANK", 0) if launched_ranks() > 1 else 0


def local_rank() -> int:
    """Return the number of this process among those of its machine, from 0.

    Examples:
        >>> local_rank()
        0
    """
    return _number("LOCAL_RANK", 0) if launched_ranks() > 1 else 0


def local_ranks() -> int:
    """Return the number of processes that ``torchrun`` has started on this machine; 1 without it.

    Examples:
        >>> local_ranks()
        1
    """
    return _number("LOCAL_WORLD_SIZE", local_rank() + 1) if launched_ranks() > 1 else 1


def restarts() -> int:
    """Return how often ``torchrun`` has started the processes of this machine again after one of them failed.

    Machines count by themselves: one that starts its processes again because another one did so does not count it.

    Examples:
        >>> restarts()
        0
    """
    return _number("TORCHELASTIC_RESTART_COUNT", 0) if launched_ranks() > 1 else 0


def requeues() -> int:
    """Return how often Slurm has started this job again, after it was preempted or a node failed.

    Examples:
        >>> requeues()
        0
    """
    return _number("SLURM_RESTART_COUNT", 0)


def uses_agent_store() -> bool:
    """Return whether the ranks share the store of ``torchrun``, which outlives a restart.

    With ``TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1`` and the rendezvous c10d, rank 0 has a new store at each start.

    Examples:
        >>> uses_agent_store()
        False
    """
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def may_restart_apart() -> bool:
    """Return whether machines that count their restarts by themselves share one store, so that they may not meet again.

    Examples:
        >>> may_restart_apart()
        False
    """
    several = _number("GROUP_WORLD_SIZE", 1) > 1 and _number("TORCHELASTIC_MAX_RESTARTS", 0) > 0
    return several and uses_agent_store()


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else default
