"""The setting ``encoder`` of every method that has it."""

import functools
import os

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

import epagcl
from epagcl.core import randomness
from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.nn.encoders import ENCODERS, SCALES
from tests.conftest import random_edges
from tests.methods.test_all import may_change

#: The choices of each method that has the setting.
CHOICES = {
    name: field.metadata["choices"]
    for name in epagcl.methods()
    for field in epagcl.method(name).setting_fields()
    if field.name == "encoder"
}
every_encoder = pytest.mark.parametrize(
    ("name", "encoder"), [(name, encoder) for name, choices in CHOICES.items() for encoder in choices]
)
SMALL = {"hidden": 8, "dim": 6, "projection": 7, "predictor": 7, "negatives": 2, "epochs": 3, "device": "cpu"}


def create(name, encoder, **settings):
    known = {field.name for field in epagcl.method(name).setting_fields()}
    settings = {**SMALL, **({"layers": 1} if encoder in SCALES else {}), **settings}
    return epagcl.method(name)(encoder=encoder, **{key: value for key, value in settings.items() if key in known})


def test_methods_with_a_gcn_encoder_have_the_setting_and_the_paper_s_as_default():
    assert set(CHOICES) == {"epagcl", "grace", "gca", "dgi", "mvgrl", "gmi", "cca-ssg", "bgrl"}
    for name, choices in CHOICES.items():
        assert epagcl.method(name)().encoder == "gcn"
        assert choices == (("gcn", "residual") if name == "mvgrl" else ENCODERS)
        with pytest.raises(InputError, match="encoder='gat': choose one of gcn, residual"):
            epagcl.method(name)(encoder="gat")


@pytest.mark.parametrize("name", ["gmi", "cca-ssg", "bgrl"])
@pytest.mark.parametrize("encoder", SCALES)
def test_several_scales_have_one_layer(name, encoder):
    with pytest.raises(InputError, match=f"encoder='{encoder}', layers=2: this encoder has one layer; set layers=1"):
        epagcl.method(name)(encoder=encoder)


@every_encoder
def test_models_train_embed_unseen_graphs_and_are_saved(tmp_path, small_graph, name, encoder):
    model = create(name, encoder, lr=0.01, patience=0).fit(small_graph)
    untrained = create(name, encoder, epochs=0).fit(small_graph).network_
    still = [
        key
        for (key, p), q in zip(model.network_.named_parameters(), untrained.parameters(), strict=True)
        if may_change(name, key, p) and torch.equal(p, q)
    ]
    assert still == []
    assert (any("root" in key for key, _ in model.network_.named_parameters())) == (encoder == "residual")
    z = model.embed(small_graph)
    assert z.shape == (60, 6)
    other = block_model(80, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=9)
    unseen = model.embed(other)
    assert unseen.shape == (80, 6)
    assert torch.isfinite(unseen).all()
    model.save(tmp_path / "run")
    loaded = epagcl.load_model(tmp_path / "run", device="cpu")
    assert loaded.encoder == encoder
    assert torch.equal(loaded.embed(small_graph), z)
    assert torch.equal(loaded.embed(other), unseen)


@every_encoder
def test_the_embedding_does_not_depend_on_the_order_of_nodes(small_graph, name, encoder):
    model = create(name, encoder).fit(small_graph)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    moved = Data(x=small_graph.x.to_dense()[order], edge_index=torch.argsort(order)[small_graph.edge_index])
    torch.testing.assert_close(model.embed(moved), model.embed(small_graph)[order], rtol=1e-4, atol=1e-5)


@every_encoder
def test_all_weights_of_an_encoder_share_one_product_with_the_features(monkeypatch, name, encoder):
    data = block_model(60, num_classes=3, num_features=400, topic_words=10, words_per_node=6, seed=3)
    model = create(name, encoder, epochs=0).fit(data)
    graph = Graph.from_data(check(data))
    assert isinstance(graph.x, SparseMatrix)
    prepared, products, multiply = model.prepare(graph), [], SparseMatrix.__matmul__
    monkeypatch.setattr(SparseMatrix, "__matmul__", lambda self, h: products.append(self) or multiply(self, h))
    model.loss(model.network_.train(), graph, prepared, 1).backward()
    encoders = 2 if name == "bgrl" else 1  # BGRL also has a target network
    assert sum(matrix is graph.x for matrix in products) == encoders


class HostReads(TorchDispatchMode):
    """The operations that read values of a tensor, which a CUDA graph cannot capture."""

    reads = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal")

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        # Without the size of its output, the tensor of repeats is read.
        if name in self.reads or (name == "repeat_interleave" and not (kwargs or {}).get("output_size")):
            self.found.append(name)
        return function(*args, **(kwargs or {}))


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Replace what reads values on a CPU only: the slope of the activation, and the keys of random numbers.

    The keys depend on the seed alone and are computed on the CPU, whatever the device.
    """
    monkeypatch.setattr(randomness, "fold", functools.cache(randomness.fold))
    monkeypatch.setattr(
        "epagcl.nn.layers._BiasPReLU.apply", lambda x, bias, slope: torch.nn.functional.prelu(x + bias, slope)
    )


def host_reads(name, encoder, data):
    """Return the values read in an epoch after the first, which fills caches."""
    model = create(name, encoder, epochs=0, batch_size=0).fit(data)
    graph, network = Graph.from_data(check(data, quiet=True)), model.network_.train()
    prepared = model.prepare(graph)
    model.loss(network, graph, prepared, torch.tensor(0)).backward()
    with HostReads() as reads:
        model.loss(network, graph, prepared, torch.tensor(1)).backward()
    return reads.found


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize(("name", "encoder"), [(n, e) for n in ("dgi", "mvgrl", "gmi") for e in CHOICES[n]])
def test_an_epoch_can_be_captured(small_graph, name, encoder):
    assert host_reads(name, encoder, small_graph) == []


@pytest.mark.slow
@pytest.mark.usefixtures("as_on_a_gpu", "untimed_tiles")
@pytest.mark.parametrize(("name", "encoder"), [("cca-ssg", "residual"), ("bgrl", "residual"), ("cca-ssg", "pagerank")])
def test_an_epoch_of_sampled_views_can_be_captured(use_triton, name, encoder):
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("host reads are counted on CPU tensors, which only Triton's interpreter accepts")
    use_triton(True)  # plain PyTorch compacts views, whose sizes change
    tiny = Data(x=torch.eye(6, 5), edge_index=random_edges(6, 0.5, seed=0))
    assert host_reads(name, encoder, tiny) == []
