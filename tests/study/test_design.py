import re
import sys

import pytest
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.data.checking import check
from epagcl.data.graph import Graph
from epagcl.evaluation.linear import linear_evaluation
from epagcl.study import design
from epagcl.study.comparison import collect, fill
from epagcl.study.design import ORDER, Row, cells, fingerprint, rows, settings_source
from epagcl.study.store import Store
from tests.study.conftest import SMALL, compare, row


def test_rows_are_the_references_and_all_methods_in_the_order_of_the_paper():
    titles = [r.title for r in rows()]
    assert titles[:3] == ["raw features", "untrained encoder", "propagated"]
    assert [r.title for r in rows() if r.reference] == titles[:3]
    assert titles.count("propagated") == 1
    expected = "GCN GAT DGI GMI MVGRL GRACE GCA* GCA BGRL GREET CCA-SSG EPAGCL* EPAGCL"
    assert titles[3:16] == expected.split(" ")
    assert {name.removesuffix("*") for name in ORDER} <= set(epagcl.methods())
    assert rows(["gca*"])[-1] == Row("GCA*", "gca", {"p_mask_1": 0.0, "p_mask_2": 0.0})
    assert rows(["gca*"])[-1].title == "GCA*"
    with pytest.raises(InputError, match=r"no method 'dgi\*'; .* without feature masks are gca\* and epagcl\*"):
        rows(["dgi*"])
    with pytest.raises(InputError, match="no method 'gcl'"):
        rows(["gcl"])


def test_rows_with_the_own_untrained_encoder_of_each_method():
    chosen = rows(["gcn", "mvgrl", "gca*", "gca", "propagated"], untrained=True)
    titles = ["raw features", "untrained MVGRL", "untrained GCA", "propagated", "GCN", "MVGRL", "GCA*", "GCA"]
    assert [r.title for r in chosen] == titles
    assert chosen[1] == Row("untrained MVGRL", "mvgrl", {"epochs": 0}, reference=True)
    assert chosen[1].title == "untrained MVGRL"
    ((model,), _) = chosen[1].models("cora", 1, {"epochs": 9, "dim": 32})
    assert (model.name, model.epochs, model.dim) == ("mvgrl", 0, 32)


def test_the_reference_keeps_its_teleport_probability_unless_it_is_asked_for():
    for wanted, alpha in (("mvgrl", 0.15), ("propagated", 0.4)):
        (found,) = [r for r in rows([wanted]) if r.method == "propagated"]
        ((model,), _) = found.models(None, 1, {"alpha": 0.4, "dim": 32, "epochs": 9})
        assert (model.alpha, model.dim, found.reference) == (alpha, 32, wanted != "propagated")


def test_the_untrained_encoder_of_epagcl_has_the_same_stored_runs_under_both_titles(data):
    shared = cells(data, "g", [rows(["epagcl"])[1], rows(["epagcl"], untrained=True)[1]], seeds=1, settings=SMALL)
    assert shared[0].key(0) == shared[1].key(0)


def test_starred_rows_have_no_feature_masks(tmp_path, data):
    result = compare(data, "g", row("epagcl*"), tmp_path, seeds=1, protocols=["strict"], settings=SMALL)
    assert result["settings"]["p_mask_1"] == result["settings"]["p_mask_2"] == 0
    assert result["row"] == "EPAGCL*"


def test_a_change_of_the_code_changes_the_key(tmp_path, data, monkeypatch):
    (cell,) = cells(data, "g", [row("dgi")], seeds=1, protocols=["strict"], settings=SMALL)
    store = Store(tmp_path)
    fill([cell], store)
    assert cell.missing(store) == []
    monkeypatch.setattr(sys.modules[Row.__module__], "code_version", lambda *_: "changed")
    assert cell.missing(store) == [0]
    assert collect(cell, store) is None


def test_another_graph_of_the_same_name_has_other_keys(tmp_path, data):
    raw = rows(["dgi"])[0]
    first = compare(data, "g", raw, tmp_path, seeds=1, protocols=["strict"])
    for change in ("x", "y"):
        other = data.clone()
        other[change] = data.x.to_dense().flip(0) if change == "x" else data.y.flip(0)
        again = compare(other, "g", raw, tmp_path, seeds=1, protocols=["strict"])
        assert again["graph"]["fingerprint"] != first["graph"]["fingerprint"]
        expected = linear_evaluation([other.x], other.y).runs
        assert again["protocols"]["strict"]["accuracy"]["runs"] == pytest.approx(expected)


def test_flipped_signs_and_one_changed_row_have_other_keys(data):
    raw = rows(["dgi"])[:1]
    [cell] = cells(data, "g", raw)
    x = data.x.to_dense()
    signs = torch.where(torch.arange(x.numel()).view(x.shape) % 2 == 0, 1.0, -1.0)
    one_row = x.clone()
    one_row[7] = x[8]
    for features in (x * signs, one_row):
        [other] = cells(data.clone().update({"x": features}), "g", raw)
        assert other.key(0) != cell.key(0)


def test_other_published_splits_have_other_keys(tmp_path, data):
    raw = rows(["dgi"])[0]
    first = compare(data, "g", raw, tmp_path, seeds=1, protocols=["public"])
    other = data.clone()
    for part in ("train", "val", "test"):
        other[f"{part}_mask"] = data[f"{part}_mask"].roll(50)
    again = compare(other, "g", raw, tmp_path, seeds=1, protocols=["public"])
    assert again["graph"]["fingerprint"] != first["graph"]["fingerprint"]
    expected = linear_evaluation([other.x], other.y, "public", splits=epagcl.data.public_splits(other)).runs
    assert again["protocols"]["public"]["accuracy"]["runs"] == pytest.approx(expected)
    [key], [other_key] = ([cell.key(0) for cell in cells(graph, "g", [raw])] for graph in (data, other))
    assert key != other_key


def test_the_fingerprint_of_a_graph_without_published_splits_has_no_part_for_them(data):
    plain = data.clone()
    for part in ("train", "val", "test"):
        del plain[f"{part}_mask"]
    assert re.fullmatch(re.escape(Graph.from_data(check(plain)).fingerprint) + "-[0-9a-f]{16}", fingerprint(plain))
    assert fingerprint(data).startswith(fingerprint(plain) + "-")


def test_a_users_graph_with_the_name_of_a_named_graph_has_no_recipe(data):
    models, source = row("grace").models(None, 1, {})
    assert source == "defaults"
    assert models[0].dim == 256
    models, source = row("grace").models("Cora", 1, {})
    assert source == "paper"
    assert models[0].dim == 128


def test_settings_are_published_as_long_as_they_equal_the_recipe():
    def result(name, **change):
        models, source = row(name).models("Cora", 1, {})
        settings = models[0].settings() | change
        return {"source": source, "row": row(name).title, "graph": {"name": "Cora"}, "settings": settings}

    assert settings_source(result("grace")) == "published"
    assert settings_source(result("grace", temperature=0.5)) == "ours"
    assert settings_source(result("epagcl*")) == "published"
    assert settings_source({"source": "defaults"}) == "defaults"


def test_earlier_names_of_settings_are_accepted(data):
    [cell] = cells(data, "g", [row("dgi")], seeds=1, settings={"features": "row-sum"})
    assert cell.resolved["feature_scaling"] == "row-sum"
    stored = {"source": "paper", "row": "GRACE", "graph": {"name": "Cora"}, "settings": {}}
    settings = row("grace").models("Cora", 1, {})[0][0].settings()
    stored["settings"] = {"features" if key == "feature_scaling" else key: value for key, value in settings.items()}
    assert settings_source(stored) == "published"


def test_earlier_values_of_settings_are_accepted(data):
    keys = [cells(data, "g", [row("epagcl")], settings={"drop": rule})[0].key(0) for rule in ("eq7", "eq9")]
    assert keys[0] == keys[1]
    assert keys[0]["settings"]["drop"] == "eq9"
    settings = row("epagcl").models("Cora", 1, {})[0][0].settings() | {"drop": "eq7", "add": "eq7"}
    stored = {"source": "paper", "row": "EPAGCL", "graph": {"name": "Cora"}, "settings": settings}
    assert settings_source(stored) == "published"


def test_a_wrong_setting_is_refused_before_training(data):
    with pytest.raises(InputError, match="epochs=-1"):
        cells(data, "g", [row("dgi")], settings={"epochs": -1})


def test_a_batch_of_seeds_takes_about_ten_seconds_on_a_gpu(data, monkeypatch):
    [trained] = cells(data, "g", [row("dgi")], seeds=20)
    [untrained] = cells(data, "g", [row("dgi")], seeds=20, settings={"epochs": 0})
    monkeypatch.setattr(design, "resolve_device", lambda _: torch.device("cpu"))
    assert (untrained.seeds_per_batch(None), trained.seeds_per_batch(0.1)) == (20, 1)
    monkeypatch.setattr(design, "resolve_device", lambda _: torch.device("cuda"))
    assert [trained.seeds_per_batch(seconds) for seconds in (None, 30.0, 4.0, 0.5)] == [1, 1, 2, 20]


def test_cells_need_labels_and_a_seed(data):
    for seeds in (0, -2):
        with pytest.raises(InputError, match=f"seeds={seeds}: give a whole number of at least 1"):
            cells(data, "g", rows()[:1], seeds=seeds)
    unlabelled = data.clone()
    unlabelled.y = None
    with pytest.raises(InputError, match=r"g: no labels, by which methods are compared; set data\.y"):
        cells(unlabelled, "g", rows()[:1])
