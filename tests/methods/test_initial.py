import pytest
import torch

import epagcl
from epagcl import EPAGCL
from epagcl.core import memory
from epagcl.core.errors import InputError
from epagcl.methods import initial
from epagcl.methods.initial import initial_network
from tests.core.helpers import in_threads

SMALL = {"hidden": 8, "dim": 4, "projection": 4, "device": "cpu"}


def weights(model):
    return torch.cat([value.flatten().double() for value in model.network_.state_dict().values()])


@pytest.mark.parametrize("name", [name for name in epagcl.methods() if not epagcl.method(name).supervised])
def test_weights_are_those_that_the_global_generator_would_give(name):
    model = epagcl.method(name)(device="cpu", seed=3)
    model.num_features_ = 12
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        expected = model.build(12).state_dict()
    before = torch.get_rng_state()
    found = initial_network(model).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(found[key], value) for key, value in expected.items())


def test_fits_in_threads_honour_their_seeds_and_leave_the_caller_alone(small_graph):
    expected = {seed: weights(EPAGCL(epochs=1, seed=seed, **SMALL).fit(small_graph)) for seed in range(4)}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        stream = [torch.rand(2) for _ in range(2000)]
        torch.manual_seed(1)
        wrong = []

        def fit(seed):
            for _ in range(3):
                if not torch.equal(weights(EPAGCL(epochs=1, seed=seed, **SMALL).fit(small_graph)), expected[seed]):
                    wrong.append(seed)

        assert in_threads(fit, range(4), lambda: all(torch.equal(torch.rand(2), part) for part in stream))
    assert wrong == []


@pytest.mark.parametrize("settings", [{"dim": 2**31}, {"hidden": 2**40}, {"dim": 2**62}])
def test_a_network_that_needs_too_much_memory_is_refused_before_it_is_built(small_graph, settings):
    expected = r"^EPAGCL: the weights for 40 feature columns (need|do not fit).*; use smaller"
    with pytest.raises(InputError, match=expected):
        EPAGCL(**{**SMALL, **settings}).fit(small_graph)


def test_training_needs_four_times_the_weights(small_graph, monkeypatch):
    model = EPAGCL(epochs=1, **SMALL)
    size = memory.network_bytes(lambda: model.build(40))
    monkeypatch.setattr(memory, "available_memory", lambda device: 4 * size - 1)
    monkeypatch.setattr(initial, "available_memory", lambda device: 4 * size - 1)
    with pytest.raises(InputError, match=r"need 0\.0 GiB"):
        model.fit(small_graph)
    monkeypatch.setattr(memory, "available_memory", lambda device: 4 * size)
    model.fit(small_graph)
