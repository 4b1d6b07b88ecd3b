import threading

import pytest
import torch
from torch import nn

from epagcl.core.seeding import seeded
from tests.core.helpers import in_threads


def draws():
    """Return random numbers of many operations."""
    return [
        nn.Linear(5, 7).weight.detach(),
        torch.randn(4),
        torch.rand(3, 2),
        torch.randperm(9),
        torch.randint(0, 10, (5,)),
        torch.randint(7, (5,)),
        torch.empty(3).normal_(),
        torch.bernoulli(torch.full((4,), 0.5)),
        torch.normal(0.0, 1.0, (3,)),
        torch.multinomial(torch.ones(5), 2),
        torch.rand_like(torch.ones(3)),
        nn.init.xavier_uniform_(torch.empty(3, 4)),
        nn.init.orthogonal_(torch.empty(3, 3)),
        nn.functional.dropout(torch.ones(10), 0.5),
    ]


@pytest.mark.parametrize("seed", [0, 1, 2**40, 2**63 - 1])
def test_the_numbers_are_those_of_the_global_generator(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        expected = draws()
    before = torch.get_rng_state()
    with seeded(seed):
        found = draws()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_of_the_caller_is_kept():
    own = torch.Generator().manual_seed(3)
    with seeded(0):
        found = torch.rand(4, generator=own)
    assert torch.equal(found, torch.rand(4, generator=torch.Generator().manual_seed(3)))


def test_draws_of_two_threads_that_take_turns_are_those_of_their_seeds():
    turns, found = threading.Barrier(2, timeout=60), {}

    def draw(seed):
        with seeded(seed):
            turns.wait()
            found[seed] = []
            for turn in range(6):
                if turn % 2 == seed:
                    found[seed].append(torch.rand(3))
                turns.wait()

    before = torch.get_rng_state()
    thread = threading.Thread(target=draw, args=(1,))
    thread.start()
    draw(0)
    thread.join()
    assert torch.equal(torch.get_rng_state(), before)
    for seed, parts in found.items():
        own = torch.Generator().manual_seed(seed)
        assert all(torch.equal(part, torch.rand(3, generator=own)) for part in parts)


def test_the_caller_draws_its_own_numbers_while_a_thread_is_seeded():
    inside, done = threading.Event(), threading.Event()

    def draw():
        with seeded(1):
            torch.rand(3)
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=draw)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        expected = torch.rand(3), torch.rand(3)
        torch.manual_seed(5)
        thread.start()
        assert inside.wait(60)
        first = torch.rand(3)
        done.set()
        thread.join()
        assert torch.equal(first, expected[0])
        assert torch.equal(torch.rand(3), expected[1])


def test_threads_do_not_disturb_each_other_nor_the_caller():
    with torch.random.fork_rng(devices=[]):
        expected = {}
        for seed in range(4):
            torch.manual_seed(seed)
            expected[seed] = [nn.Linear(6, 6).weight.detach() for _ in range(50)]
        torch.manual_seed(5)
        stream = [torch.rand(3) for _ in range(200)]
        torch.manual_seed(5)
        wrong = []

        def draw(seed):
            with seeded(seed):
                for weight in expected[seed]:
                    if not torch.equal(nn.Linear(6, 6).weight.detach(), weight):
                        wrong.append(seed)

        assert in_threads(draw, range(4), lambda: all(torch.equal(torch.rand(3), part) for part in stream))
    assert wrong == []
