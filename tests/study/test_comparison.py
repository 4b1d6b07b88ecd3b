import json
import multiprocessing

import pytest
import torch

import epagcl
from epagcl import comparison, evaluation
from epagcl.cli.progress import Work
from epagcl.cli.rendering import comparison_cells
from epagcl.core.errors import InputError, TrainingError
from epagcl.data import block_model
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.protocol import Rule
from epagcl.study.cells import ORDER, Row, cells, rows, settings_source
from epagcl.study.comparison import collect, fill
from epagcl.study.store import Store

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


def compare(data, name, row, folder, **options):
    store, (cell,) = Store(folder), cells(data, name, [row], **options)
    fill([cell], store)
    return collect(cell, store)


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
    assert result["protocols"]["strict"]["seeds"] == result["seeds"] == [0, 1, 2]
    assert result["protocols"]["strict"]["split"] == "random 10/10/80"
    assert result["training"]["epochs"] == [2, 2, 2]
    assert result["source"] == "ours"  # settings were given


def test_starred_rows_hide_no_feature(tmp_path, data):
    result = compare(data, "g", row("epagcl*"), tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert result["settings"]["p_mask_1"] == result["settings"]["p_mask_2"] == 0
    assert result["row"] == "EPAGCL*"


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
    assert scores["strict"]["seeds"] == [0, 1]
    for seed in range(2):
        split = epagcl.data.random_split(data.y, seed=seed)
        model = epagcl.method("gcn")(**settings, seed=seed).fit(data, split=split)
        accuracy = (model.predict(data)[split.test] == data.y[split.test]).double().mean()
        assert scores["strict"]["accuracy"]["runs"][seed] == pytest.approx(accuracy.item())


def test_each_run_is_computed_once(tmp_path, data, monkeypatch):
    trained = []
    fit = comparison._fit
    monkeypatch.setattr(comparison, "_fit", lambda model, *rest: trained.append(model.seed) or fit(model, *rest))
    first = compare(data, "g", row("dgi"), tmp_path, seeds=2, protocols=["strict"], settings=SMALL)
    assert trained == [0, 1]
    assert compare(data, "g", row("dgi"), tmp_path, seeds=2, protocols=["strict"], settings=SMALL) == first
    assert trained == [0, 1]
    more = compare(data, "g", row("dgi"), tmp_path, seeds=3, protocols=["strict"], settings=SMALL)
    assert trained == [0, 1, 2]  # the seed that is new
    assert more["protocols"]["strict"]["accuracy"]["runs"][:2] == first["protocols"]["strict"]["accuracy"]["runs"]
    for change in ({"settings": {**SMALL, "epochs": 3}}, {"protocols": ["strict", "public"]}):
        trained.clear()
        compare(data, "g", row("dgi"), tmp_path, **{"seeds": 1, "protocols": ["strict"], "settings": SMALL, **change})
        assert trained == [0]


def test_rows_of_the_same_settings_share_their_runs(tmp_path, data, monkeypatch):
    compare(data, "g", row("epagcl*"), tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    monkeypatch.setattr(comparison, "provenance", lambda *_: pytest.fail("trained again"))
    same = Row("EPAGCL without masks", "epagcl", {"p_mask_1": 0.0, "p_mask_2": 0.0})
    result = compare(data, "g", same, tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert result["row"] == "EPAGCL without masks"


def test_a_change_of_code_is_another_run(tmp_path, data, monkeypatch):
    (cell,) = cells(data, "g", [row("dgi")], seeds=1, protocols=["strict"], settings=SMALL)
    store = Store(tmp_path)
    fill([cell], store)
    assert cell.missing(store) == []
    monkeypatch.setattr(comparison, "code_version", lambda *_: "changed")
    assert cell.missing(store) == [0]
    assert collect(cell, store) is None


def test_an_interrupted_table_keeps_what_is_finished(tmp_path, data, monkeypatch):
    store, made = Store(tmp_path), cells(data, "g", rows(["dgi"]), seeds=3, protocols=["strict"], settings=SMALL)
    fit = comparison._fit

    def interrupted(model, *rest):
        if model.name == "dgi" and model.seed == 2:
            raise KeyboardInterrupt
        return fit(model, *rest)

    monkeypatch.setattr(comparison, "_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fill(made, store)
    assert [cell.missing(store) for cell in made] == [[], [], [2]]
    assert collect(made[2], store)["seeds"] == [0, 1]  # a table of what is there
    monkeypatch.setattr(comparison, "_fit", fit)
    fill(made, store)
    assert [cell.missing(store) for cell in made] == [[], [], []]


@pytest.mark.parametrize("name", ["dgi", "gcn"])
def test_a_training_that_fails_leaves_the_rest_of_the_table(tmp_path, data, monkeypatch, caplog, name):
    store, made = Store(tmp_path), cells(data, "g", rows([name]), seeds=3, protocols=["strict"], settings=SMALL)
    fit = comparison._fit

    def failing(model, *rest, **options):
        if model.name == name and model.seed == 1:
            raise TrainingError("the loss is nan")
        return fit(model, *rest, **options)

    monkeypatch.setattr(comparison, "_fit", failing)
    fill(made, store)
    assert collect(made[2], store)["seeds"] == [0, 2]
    assert "seed 1: left out (the loss is nan)" in caplog.text
    assert made[2].missing(store) == [1]  # another call tries again


def _fill_all(folder, graph):
    torch.set_num_threads(1)
    fill(cells(graph, "g", rows(["dgi", "grace"]), seeds=3, protocols=["strict"], settings=SMALL), Store(folder))


def test_processes_that_fill_one_store_together_do_each_run_once(tmp_path, data):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill_all, args=(tmp_path, data)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    made = cells(data, "g", rows(["dgi", "grace"]), seeds=3, protocols=["strict"], settings=SMALL)
    assert [cell.missing(Store(tmp_path)) for cell in made] == [[]] * 4
    assert len(list(tmp_path.rglob("*.json"))) == 4 * 3
    assert not list(tmp_path.rglob("*.lock"))


def test_progress_counts_runs_and_estimates_the_time_left(tmp_path, data):
    work = Work()
    made = cells(data, "g", rows(["dgi"]), seeds=2, protocols=["strict"], settings=SMALL)
    fill(made, Store(tmp_path), work)
    assert (work.runs, work.done, work.left) == (6, 6, 0)
    work = Work()
    assert work.time_left() == ""
    work.plan([1.0, 1.0, 8.0])
    work.finish([1.0], 30.0)
    assert work.time_left() == "about 4 min left"
    work.drop([8.0])
    assert work.time_left() == "less than a minute left"


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
        assert again["graph"]["fingerprint"] != first["graph"]["fingerprint"]
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
    for protocols in (["strict"], ["public"]):
        result = compare(data, "g", rows(["dgi"])[0], tmp_path, seeds=1, protocols=protocols)
        assert list(result["protocols"]) == protocols
    (cell,) = cells(data, "g", [rows(["dgi"])[0]], seeds=1, protocols=["strict", "public"])
    assert cell.missing(Store(tmp_path)) == []


def test_settings_are_published_as_long_as_the_recipe_is_theirs():
    def result(name, **change):
        models, source = row(name).models("Cora", 1, {})
        settings = models[0].settings() | change
        return {"source": source, "row": row(name).title, "graph": {"name": "Cora"}, "settings": settings}

    assert settings_source(result("grace")) == "published"
    assert settings_source(result("grace", temperature=0.5)) == "ours"
    assert settings_source(result("epagcl*")) == "published"
    assert settings_source({"source": "defaults"}) == "defaults"


def test_results_are_plain_json(tmp_path, data):
    result = compare(data, "g", row("dgi"), tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert json.loads(json.dumps(result)) == result
    assert result["hardware"] == ["cpu"]
    assert result["training"]["epochs"] == [2]
