"""Random matrices, the comparison of gradients, and threads."""

import threading

import torch


def random_sparse(rows, cols, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    dense = torch.rand(rows, cols, generator=generator, dtype=dtype)
    return dense * (torch.rand(rows, cols, generator=generator) < 0.3)


def normal(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype, requires_grad=True)


def assert_same_gradients(ours, expected, inputs, seed=9):
    torch.testing.assert_close(ours, expected)
    grad = normal(*ours.shape, seed=seed).detach()
    gradients = [torch.autograd.grad(y, inputs, grad, retain_graph=True) for y in (ours, expected)]
    torch.testing.assert_close(*gradients)


def in_threads(work, seeds, meanwhile):
    """Call ``work(seed)`` for each seed in a thread of its own, and ``meanwhile()`` here while they run."""
    threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    try:
        return meanwhile()
    finally:
        for thread in threads:
            thread.join()
