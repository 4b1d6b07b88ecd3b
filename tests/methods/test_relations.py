import pytest
import torch
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import block_model, check
from epagcl.data.graph import Graph
from epagcl.methods.relations import LEAST_WEIGHT, apply_relations, mixed, relation_strengths

FAST = {"epochs": 1, "hidden": 8, "dim": 4, "projection": 4, "device": "cpu", "precision": "fp32"}
WORDS = {"num_classes": 4, "num_features": 200, "topic_words": 40}


def two_kinds(num_nodes=400, homophily=(0.8, 0.25), seed=0) -> Data:
    """Return a graph with few edges within classes, of the kind ``trust``, and many random ones, ``noise``."""
    parts = [
        block_model(num_nodes, homophily=h, average_degree=degree, seed=seed + k, **WORDS)
        for k, (h, degree) in enumerate(zip(homophily, (4, 8), strict=True))
    ]
    data = parts[0].clone()
    data.edge_index = torch.cat([part.edge_index for part in parts], dim=1)
    data.edge_type = torch.cat([torch.full((part.num_edges,), k) for k, part in enumerate(parts)])
    data.relation_names = ["trust", "noise"]
    return data


def circular(num_nodes=400, seed=0, directed="both") -> Data:
    """Return a directed graph in which most edges lead from a class to the next of four."""
    data = block_model(num_nodes, seed=seed, **WORDS)
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(num_nodes, (4 * num_nodes,), generator=generator)
    target = torch.randint(num_nodes, (4 * num_nodes,), generator=generator)
    follows = torch.rand(4 * num_nodes, generator=generator) < 0.8
    data.edge_index = torch.stack([source, torch.where(follows, target // 4 * 4 + (source + 1) % 4, target)])
    data.directed = directed
    return check(data, quiet=True)


def merged(data: Data) -> Data:
    """Return the graph without kinds and directions."""
    data = data.clone()
    for key in ("edge_type", "edge_relation", "relation_names"):
        if key in data:
            del data[key]
    return check(data, quiet=True)


def accuracy(model, data) -> float:
    return epagcl.linear_evaluation(model.fit_embed(data), data.y, runs=3).mean


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_strengths_tell_informative_from_random_edges():
    strengths = relation_strengths(Graph.from_data(check(two_kinds(), quiet=True)))
    assert strengths[0] == 1
    assert abs(strengths[1]) < 0.2
    different = relation_strengths(Graph.from_data(check(two_kinds(homophily=(0.9, 0.0)), quiet=True)))
    assert different[0] == 1
    assert different[1] < -0.1


def test_without_information_all_strengths_are_1():
    data = check(two_kinds(60), quiet=True)
    data.x = torch.ones(60, 1)
    assert relation_strengths(Graph.from_data(data)) == [1.0, 1.0]


def graph_of(relations, weight=None) -> Graph:
    pairs = torch.tensor([[0, 1, 2], [1, 2, 3]])
    names = tuple("abc"[: len(relations)])
    return Graph(torch.ones(4, 1), pairs, 4, weight, torch.tensor(relations), names)


A, B = [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]], [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]


def test_pairs_have_the_weights_of_their_relations():
    weight = mixed(graph_of([A, B]), [1.0, 0.5]).weight
    torch.testing.assert_close(weight, torch.tensor([1.0, 1.5, 0.5]))
    # Neighbours of another kind do not belong into an average.
    weight = mixed(graph_of([A, B]), [1.0, -0.5]).weight
    torch.testing.assert_close(weight, torch.tensor([1.0, 1.0, LEAST_WEIGHT]) / (2 + LEAST_WEIGHT) * 3)


def test_directions_alone_change_no_weight():
    out, into = [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], [[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]
    assert mixed(graph_of([out, into]), [-1.0, -0.9]).weight is None
    assert mixed(graph_of([out, into]), [1.0, 0.5]).weight is None


def test_merging_removes_relations_only():
    graph = graph_of([A, B], weight=torch.tensor([1.0, 0.5, 1.5]))
    plain = mixed(graph, [])
    assert plain.relations is None
    assert plain.relation_names == ()
    assert plain.weight is graph.weight
    untyped = Graph(graph.x, graph.pairs, 4)
    assert mixed(untyped, []) is untyped


@pytest.mark.slow
@pytest.mark.parametrize(("make", "gain"), [(two_kinds, 0.1), (circular, 0.25)])
def test_propagated_features_gain_by_relations(make, gain):
    data, model = make(), epagcl.Propagated(dim=64, device="cpu")
    assert accuracy(model, data) > accuracy(model, merged(data)) + gain


@pytest.mark.slow
@pytest.mark.parametrize("make", [two_kinds, circular])
def test_epagcl_plus_gains_by_relations(make):
    data = make()
    model = epagcl.EPAGCLPlus(epochs=10, hidden=16, dim=64, projection=16, members=1, device="cpu", precision="fp32")
    assert accuracy(model, data) > accuracy(model, merged(data)) + 0.08


@pytest.mark.slow
def test_one_direction_is_not_propagated_in_the_other():
    data = circular(80, directed="out")
    model = epagcl.EPAGCLPlus(epochs=1, hidden=8, dim=8, projection=4, members=1, device="cpu").fit(data)
    weights = dict(zip(model.network_.kinds, model.network_.weights.tolist(), strict=True))
    assert weights["two_hops"] == weights["joined"] == weights["neighbours"] == 0
    assert weights["relation_0"] == weights["relation_0_pagerank"] == 1
    assert len(epagcl.Propagated(dim=8, device="cpu").fit(data).network_.diffusions) == 1
    assert len(epagcl.Propagated(dim=8, device="cpu").fit(circular(80)).network_.diffusions) == 3


SMALL = {
    "propagated": {"dim": 8, "device": "cpu"},
    "epagcl+": {"epochs": 1, "hidden": 8, "dim": 8, "projection": 4, "members": 1, "device": "cpu"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_relations_are_saved_and_matched_by_name(name, tmp_path, caplog):
    data = check(two_kinds(60), quiet=True)
    model = epagcl.method(name)(**SMALL[name]).fit(data)
    model.save(tmp_path)
    loaded = epagcl.load_model(tmp_path, device="cpu")
    assert loaded.relation_names_ == ["trust", "noise"]
    assert loaded.relation_strengths_ == model.relation_strengths_
    z = model.embed(data)
    assert loaded.embed(data).equal(z)
    assert loaded.get_feature_names_out().shape == (8,)
    swapped = data.clone()
    swapped.edge_relation, swapped.relation_names = data.edge_relation.flip(1), ["noise", "trust"]
    assert loaded.embed(swapped).equal(z)
    assert not warnings(caplog)


@pytest.mark.parametrize("name", SMALL)
def test_other_relations_of_another_graph(name, caplog):
    data = check(two_kinds(60), quiet=True)
    model = epagcl.method(name)(**SMALL[name]).fit(data)
    other = data.clone()
    other.relation_names = ["trust", "love"]
    caplog.clear()
    assert model.embed(other).isfinite().all()
    assert warnings(caplog) == [
        "the graph has no edges noise, on which the model was trained",
        "the model does not know the edges love; they are left out of its mixture",
    ]
    other.relation_names = ["hate", "love"]
    with pytest.raises(InputError, match="trained on the edges trust, noise, those of the graph are hate, love; give"):
        model.embed(other)
    with pytest.raises(InputError, match="those of the graph have neither kinds nor directions; give edge_type"):
        model.embed(merged(data))


def test_a_missing_relation_is_empty():
    data = check(two_kinds(60), quiet=True)
    model = epagcl.Propagated(dim=8, device="cpu").fit(data)
    part = data.clone()
    part.edge_relation, part.relation_names = data.edge_relation[:, :1], ["trust"]
    graph = apply_relations(model, Graph.from_data(part), quiet=True)
    assert graph.relation_names == ("trust", "noise")
    assert graph.relations[0].equal(Graph.from_data(data).relations[0])
    assert not graph.relations[1].any()


@pytest.mark.parametrize(
    ("make", "words"),
    [(two_kinds, "grace merges the 2 kinds of edges"), (circular, "grace does not use the direction of edges")],
)
def test_other_methods_merge_with_one_line(make, words, caplog):
    data = check(make(60), quiet=True)
    caplog.clear()
    model = epagcl.GRACE(**FAST).fit(data)
    assert warnings(caplog) == [f"{words}; epagcl+ and propagated use them"]
    assert model.embed(data).equal(epagcl.GRACE(**FAST).fit_embed(merged(data)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_refitting_forgets_relations(name, tmp_path):
    model = epagcl.method(name)(**SMALL[name])
    plain = merged(two_kinds(60))
    expected = model.fit_embed(plain)
    model.fit(two_kinds(60))
    assert model.fit_embed(plain).equal(expected)
    assert model.relation_names_ == []
    model.save(tmp_path)
    assert "relation" not in (tmp_path / "config.toml").read_text()


def test_edited_relations_are_refused(tmp_path):
    epagcl.Propagated(dim=8, device="cpu").fit(two_kinds(60)).save(tmp_path)
    config = tmp_path / "config.toml"
    text = config.read_text()
    config.write_text(text.replace('relation_names = ["trust", "noise"]', 'relation_names = ["trust"]'))
    with pytest.raises(InputError, match="relation_names and relation_strengths do not match"):
        epagcl.load_model(tmp_path)
