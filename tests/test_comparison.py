import json

import pytest
import torch

import epagcl
from epagcl import comparison, evaluation
from epagcl.comparison import ORDER, Row, compare, rows, settings_source
from epagcl.data import block_model
from epagcl.errors import InputError
from epagcl.evaluation import Rule, linear_evaluation
from epagcl.terminal import comparison_cells

SMALL = {"hidden": 8, "dim": 8, "projection": 8, "epochs": 2, "device": "cpu"}


@pytest.fixture(autouse=True)
def short_paper_protocol(monkeypatch):
    monkeypatch.setattr(evaluation, "PAPER", Rule((0.0,), 20, 1, False, True))


@pytest.fixture(scope="module")
def data():
    graph = block_model(200, num_classes=3, num_features=40, topic_words=15, seed=2)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    for part, nodes in zip(("train", "val", "test"), order.split([40, 60, 100]), strict=True):
        graph[f"{part}_mask"] = torch.zeros(200, dtype=torch.bool).index_fill_(0, nodes, True)
    return graph


def row(name):
    return rows([name])[-1]


def test_all_rows_are_the_references_and_every_method_in_the_papers_order():
    titles = [r.title for r in rows()]
    assert titles[:2] == ["raw features", "untrained encoder"]
    expected = "GCN GAT DGI GMI MVGRL GRACE GCA* GCA BGRL GREET CCA-SSG EPAGCL* EPAGCL"
    assert titles[2:15] == expected.split(" ")
    assert {name.removesuffix("*") for name in ORDER} <= set(epagcl.methods())
    assert rows(["gca*"])[-1] == Row("GCA*", "gca", {"p_mask_1": 0.0, "p_mask_2": 0.0})
    assert rows(["gca*"])[-1].key == "gca-star"
    with pytest.raises(InputError, match=r"no method 'dgi\*'; without feature masks there are gca\* and epagcl\*"):
        rows(["dgi*"])
    with pytest.raises(InputError, match="no method 'gcl'"):
        rows(["gcl"])


def test_seed_k_is_scored_on_split_k(tmp_path, data):
    result = compare(data, "g", row("grace"), tmp_path, seeds=3, protocols=["strict"], settings=SMALL)
    expected = [
        linear_evaluation(epagcl.method("grace")(**SMALL, seed=seed).fit_embed(data), data.y, runs=1, seed=seed).runs[0]
        for seed in range(3)
    ]
    assert result["protocols"]["strict"]["accuracy"]["runs"] == pytest.approx(expected, abs=1e-6)
    assert result["protocols"]["strict"]["split_seeds"] == [0, 1, 2]
    assert result["training"]["epochs"] == [2, 2, 2]
    assert result["source"] == "ours"  # settings were given


def test_starred_rows_hide_no_feature(tmp_path, data):
    result = compare(data, "g", row("epagcl*"), tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert result["key"]["settings"]["p_mask_1"] == result["key"]["settings"]["p_mask_2"] == 0
    assert (tmp_path / "g" / "epagcl-star.json").is_file()


def test_references_are_the_features_and_the_encoder_before_training(tmp_path, data):
    raw, untrained = rows(["grace"])[:2]
    result = compare(data, "g", raw, tmp_path, seeds=2, protocols=["strict"], settings=SMALL)
    expected = linear_evaluation(data.x, data.y, runs=2)
    assert result["protocols"]["strict"]["accuracy"]["runs"] == pytest.approx(expected.runs, abs=1e-6)
    assert result["training"] is None
    result = compare(data, "g", untrained, tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert result["training"]["epochs"] == [0]


def test_a_supervised_method_learns_from_the_split_it_is_scored_on(tmp_path, data):
    settings = {"epochs": 30, "device": "cpu"}
    protocols = ["strict", "paper", "public"]
    result = compare(data, "g", row("gcn"), tmp_path, seeds=2, protocols=protocols, settings=settings)
    scores = result["protocols"]
    assert scores["strict"]["accuracy"] == scores["paper"]["accuracy"] != scores["public"]["accuracy"]
    assert scores["strict"]["split_seeds"] == [0, 1]
    for seed in range(2):
        split = epagcl.data.random_split(data.y, seed=seed)
        model = epagcl.method("gcn")(**settings, seed=seed).fit(data, split=split)
        accuracy = (model.predict(data)[split.test] == data.y[split.test]).double().mean()
        assert scores["strict"]["accuracy"]["runs"][seed] == pytest.approx(accuracy.item())


def test_what_is_there_is_read_unless_it_was_made_otherwise(tmp_path, data, monkeypatch):
    first = compare(data, "g", row("dgi"), tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert json.loads((tmp_path / "g" / "dgi.json").read_text()) == json.loads(json.dumps(first))
    trained = []
    monkeypatch.setattr(comparison, "_fit", lambda model, *_: trained.append(model))
    again = compare(data, "g", row("dgi"), tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert again["date"] == first["date"]
    assert not trained
    for change in ({"seeds": 2}, {"settings": {**SMALL, "epochs": 3}}, {"protocols": ["strict", "public"]}):
        options = {"seeds": 1, "protocols": ["strict"], "settings": SMALL, **change}
        with pytest.raises(AttributeError):  # the stand-in has no embedding: it was asked to train
            compare(data, "g", row("dgi"), tmp_path, **options)
    assert trained


def test_a_graph_without_public_splits_has_no_public_figure(tmp_path):
    graph = block_model(120, num_classes=3, num_features=30, topic_words=10, seed=1)
    result = compare(graph, "g", rows(["dgi"])[0], tmp_path, seeds=1, protocols=["strict", "public"])
    assert list(result["protocols"]) == ["strict"]


def test_several_public_splits_are_one_for_each_seed(tmp_path, data):
    graph = data.clone()
    for part in ("train", "val", "test"):
        mask = graph[f"{part}_mask"]
        graph[f"geom_{part}_mask"] = torch.stack([mask, mask.roll(7), mask.roll(31)], 1)
    result = compare(graph, "g", rows(["dgi"])[0], tmp_path, seeds=2, protocols=["public"])
    splits = epagcl.data.geom_splits(graph)[:2]
    expected = linear_evaluation([graph.x] * 2, graph.y, "public", splits=splits)
    assert result["protocols"]["public"]["accuracy"]["runs"] == pytest.approx(expected.runs)


def test_another_graph_of_the_same_name_is_not_taken_for_it(tmp_path, data):
    raw = rows(["dgi"])[0]
    first = compare(data, "g", raw, tmp_path, seeds=1, protocols=["strict"])
    for change in ("x", "y"):
        other = data.clone()
        other[change] = data.x.to_dense().flip(0) if change == "x" else data.y.flip(0)
        again = compare(other, "g", raw, tmp_path, seeds=1, protocols=["strict"])
        assert again["key"]["graph"] != first["key"]["graph"]
        expected = linear_evaluation([other.x], other.y).runs
        assert again["protocols"]["strict"]["accuracy"]["runs"] == pytest.approx(expected)


def test_an_own_graph_that_is_called_like_a_named_one_has_no_recipe(data):
    models, source = row("grace").models(None, 1, {})
    assert source == "defaults"
    assert models[0].dim == 256
    models, source = row("grace").models("Cora", 1, {})
    assert source == "paper"
    assert models[0].dim == 128


def test_an_own_graph_that_is_called_like_a_named_one_has_no_published_figures(tmp_path, data):
    for named, figure in ((False, "–"), (True, "85.3 ± 0.3")):
        options = {"seeds": 1, "protocols": ["strict"], "settings": SMALL, "named": named}
        result = compare(data, "Cora", row("grace"), tmp_path / str(named), **options)
        assert comparison_cells("Cora", result, ["strict"])[2] == figure


def test_protocols_that_are_there_are_kept_when_another_is_added(tmp_path, data):
    for protocol in ("strict", "public"):
        result = compare(data, "g", rows(["dgi"])[0], tmp_path, seeds=1, protocols=[protocol])
    assert list(result["protocols"]) == ["strict", "public"]


def test_a_broken_result_file_is_as_none(tmp_path, data):
    (tmp_path / "g").mkdir()
    for text in ("{}", "{"):
        (tmp_path / "g" / "raw-features.json").write_text(text)
        result = compare(data, "g", rows(["dgi"])[0], tmp_path, seeds=1, protocols=["strict"])
        assert result["key"]["row"] == "raw features"


def test_settings_are_published_as_long_as_the_recipe_is_theirs():
    result = {
        "source": "paper",
        "key": {"row": "GRACE", "settings": row("grace").models("Cora", 1, {})[0][0].settings()},
    }
    assert settings_source("Cora", result) == "published"
    result["key"]["settings"]["temperature"] = 0.5
    assert settings_source("Cora", result) == "ours"
    assert settings_source("Cora", {"source": "defaults"}) == "defaults"
    starred = row("epagcl*").models("Cora", 1, {})[0][0].settings()
    assert settings_source("Cora", {"source": "paper", "key": {"row": "EPAGCL*", "settings": starred}}) == "published"
