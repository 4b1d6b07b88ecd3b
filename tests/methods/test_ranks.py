"""Training on several ranks gives the losses and embeddings of one process."""

import os
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.core.hardware import force_bf16
from epagcl.distributed.group import Ranks, _sharing
from epagcl.methods.registry import _registry
from tests.ranks import on_ranks

SMALL = {"hidden": 8, "dim": 4, "projection": 4, "epochs": 3, "device": "cpu"}
#: A method and settings, by name.
CASES = {
    "EPAGCL": ("epagcl", SMALL),
    "EPAGCL*": ("epagcl", {**SMALL, "p_mask_1": 0.0, "p_mask_2": 0.0, "encoder": "residual", "patience": 1}),
    "GRACE in batches": ("grace", {**SMALL, "batch_size": 7, "encoder": "scales"}),
    "GCA": ("gca", {**SMALL, "centrality": "pagerank"}),
    "propagated": ("propagated", {"dim": 4, "device": "cpu"}),
    "EPAGCL+": ("epagcl+", {**SMALL, "batch_size": 8}),
    "EPAGCL+ over all pairs": ("epagcl+", {**SMALL, "batch_size": 0, "members": 1}),
}
NAMED = {
    "uneven": list(CASES),  # 41 nodes, two of them isolated, weighted
    "empty": ["EPAGCL", "propagated", "EPAGCL+"],  # 2 nodes: with three ranks, one has none
}


def graph(kind):
    if kind == "empty":
        return Data(x=torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), edge_index=torch.tensor([[0, 1], [1, 0]]))
    data = epagcl.data.block_model(41, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
    edges = data.edge_index[:, (data.edge_index < 39).all(0)]
    weight = 1 + (edges.sum(0) % 3).float()  # the same in both directions
    return Data(x=data.x, edge_index=edges, edge_weight=weight, num_nodes=41)


@contextmanager
def steady_adam():
    """Give Adam an ε above the rounding errors of gradients.

    With the usual 1e-8, its first step is that of the sign: where a gradient is 0 up to rounding, it differs by the
    whole learning rate between CPUs and numbers of ranks.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim, "Adam", partial(torch.optim.Adam, eps=1e-3))
        yield


def trained(ranks, kind):
    """The losses, the embedding and the health of each case, on the active ranks."""
    data, results = graph(kind), {}
    for name in NAMED[kind]:
        method, settings = CASES[name]
        with steady_adam():
            model = epagcl.method(method)(**settings).fit(data)
        health = [finding.value for finding in model.health(data)]
        results[name] = [row["loss"] for row in model.history_], model.embed(data), health
    return results


@pytest.fixture(scope="module")
def expected():
    with force_bf16(False):
        return {kind: trained(None, kind) for kind in NAMED}


@pytest.mark.slow
@pytest.mark.parametrize(("size", "kind"), [(2, "uneven"), (3, "uneven"), (3, "empty")])
@pytest.mark.filterwarnings("ignore")
def test_losses_and_embeddings_equal_those_of_one_process(expected, size, kind):
    for results in on_ranks(size, trained, kind):
        for name, (losses, z, health) in expected[kind].items():
            found, embedding, other_health = results[name]
            assert found == pytest.approx(losses, rel=1e-5), name
            torch.testing.assert_close(
                embedding, z, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
            )
            assert other_health == pytest.approx(health, rel=1e-2, abs=1e-3), name


def resumed(ranks, file, epochs):
    """Train up to an epoch, and save the state after each."""
    os.environ["EPAGCL_CHECKPOINT_SECONDS"] = "0"  # the processes have the environment of their server
    model = epagcl.EPAGCL(**{**SMALL, "epochs": 6, "patience": 4})

    def stop(row):
        if row["epoch"] == epochs:
            raise KeyboardInterrupt

    try:
        with steady_adam():
            model.fit(graph("uneven"), checkpoint=file, resume=True, callback=stop)
    except KeyboardInterrupt:
        return None
    return [row["loss"] for row in model.history_], model.embed(graph("uneven"))


@pytest.mark.slow
def test_a_checkpoint_resumes_on_any_number_of_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("EPAGCL_CHECKPOINT_SECONDS", "10")  # restored after the test
    file = tmp_path / "checkpoint.safetensors"
    with force_bf16(False):
        whole = resumed(None, tmp_path / "other.safetensors", None)
        on_ranks(3, resumed, file, 2)
        saved = file.stat().st_mtime_ns
        resumed(None, file, 3)
        on_ranks(2, resumed, file, 5)
        assert file.stat().st_mtime_ns > saved
        results = on_ranks(3, resumed, file, None)
    for losses, z in results:
        assert losses == pytest.approx(whole[0], rel=1e-5)
        torch.testing.assert_close(z, whole[1], rtol=1e-3, atol=1e-4)
    assert all(a != b for a, b in pairwise(whole[0]))


def refused(ranks, file):
    """A damaged checkpoint, and graphs that differ, are refused by all ranks alike."""
    messages = []
    data = graph("uneven")
    kept = (data.edge_index != 0).all(0)
    other = data.clone().update({"edge_index": data.edge_index[:, kept], "edge_weight": data.edge_weight[kept]})
    for given in ({"data": data, "checkpoint": file, "resume": True}, {"data": other if ranks.rank else data}):
        try:
            epagcl.EPAGCL(**SMALL).fit(given.pop("data"), **given)
        except InputError as error:
            messages.append(str(error))
    return messages


@pytest.mark.slow
def test_all_ranks_raise_the_same_error(tmp_path):
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(b"damaged")
    for damaged, different in on_ranks(2, refused, file):
        assert "not a complete checkpoint" in damaged
        assert different == "rank 1 has read another graph than rank 0; give all machines the same files"


ON_ONE_RANK = [name for name, cls in _registry().items() if not cls.runs_on_ranks]


@pytest.mark.parametrize("name", ON_ONE_RANK)
def test_other_methods_say_that_they_run_on_one_rank(name):
    data = graph("uneven")
    data.y = torch.arange(41) % 2
    with _sharing(Ranks(0, 2)), pytest.raises(InputError, match="runs on one rank; start it without torchrun"):
        epagcl.method(name)(device="cpu").fit(data)


def test_six_methods_run_on_several_ranks():
    assert sorted(set(_registry()) - set(ON_ONE_RANK)) == ["epagcl", "epagcl+", "gca", "grace", "propagated"]
