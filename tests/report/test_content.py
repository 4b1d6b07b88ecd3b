import copy
import json

import numpy as np
import pandas as pd
import pytest
import torch

from epagcl import EPAGCL, SupervisedGCN
from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.evaluation.health import nearest
from epagcl.report import content as room
from epagcl.report.content import column_content, map_content, node_table, read_content, report, run_content
from epagcl.runs.evaluation import Plan, evaluate
from epagcl.runs.execute import run, trained_metrics

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    data = block_model(80, num_classes=3, num_features=30, topic_words=8, seed=1)
    data.node_ids = np.array([f"n{k}" for k in range(80)], dtype=object)
    data.label_names = ["ape", "bee", "cat"]
    return data


@pytest.fixture(scope="module")
def made(data):
    model = EPAGCL(epochs=30, p_add=0.2, **SMALL).fit(data)
    z = model.embed(data)
    metrics = trained_metrics(data, model, "zoo")
    metrics["evaluation"] = evaluate(z, data, Plan(), seed=0)
    said = []
    nodes = node_table(data, z)
    content = run_content("zoo-run", data, model, z, metrics, nodes, kind="pca", say=said.append)
    return model, z, metrics, nodes, content, said


def test_what_was_run(made, data):
    model, _, metrics, _, content, said = made
    assert (content["name"], content["method"], content["graph"]) == ("zoo-run", "EPAGCL", "zoo")
    facts = dict(content["facts"])
    assert facts["Graph"].startswith(f"zoo: 80 nodes, {data.edge_index.shape[1] // 2:,} edges, 30 features, 3 classes")
    assert facts["Trained"].startswith("30 epochs in ")
    changed = {setting["name"]: setting["value"] for setting in content["settings"] if setting["changed"]}
    assert changed.items() >= {"epochs": "30", "p_add": "0.2", "dim": "16"}.items()
    assert "temperature" not in changed
    assert content["history"]["loss"] == [row["loss"] for row in model.history_]
    assert content["measures"]["epoch"] == [25, 30]
    last = model.history_[-1]
    assert content["measures"]["alignment"][-1] == last["alignment"] / last["distance"]
    assert f"{100 * content['measures']['alignment'][-1]:.0f}%" == content["health"][2]["shown"]
    assert content["health"] == metrics["health"]
    assert said[0] == "map: PCA of 80 nodes"
    json.dumps(content, allow_nan=False)


def test_the_map_holds_ids_columns_and_true_neighbours(made, data):
    _, z, _, _, content, _ = made
    places = content["map"]
    assert places["ids"] == [f"n{k}" for k in range(80)]
    label, degree, cluster = places["columns"]
    assert label["levels"][label["values"][5]] == data.label_names[data.y[5]]
    assert degree["values"] == torch.bincount(data.edge_index[0], minlength=80).tolist()
    assert degree["log"]
    assert cluster["kind"] == "category"
    assert np.array(places["neighbours"]).reshape(80, places["k"]).tolist() == nearest(z)[0].tolist()
    assert max(abs(value) for value in places["x"] + places["y"]) == pytest.approx(1, abs=1e-3)


def test_classes_and_scores_are_those_of_the_metrics(made):
    _, _, metrics, _, content, _ = made
    classes, scores = content["classes"], content["scores"]
    assert classes["names"] == ["ape", "bee", "cat"]
    assert sum(classes["support"]) == sum(map(sum, metrics["evaluation"]["confusion"]))
    assert classes["recall"][0] == pytest.approx(classes["confusion"][0][0] / sum(classes["confusion"][0]))
    assert scores["rows"][-1]["accuracy"] == metrics["evaluation"]["accuracy"]["mean"]
    assert scores["rows"][-1]["knn"] == metrics["evaluation"]["knn_accuracy"]["mean"]


def test_without_labels_and_without_training(data):
    blind = data.clone()
    del blind.y, blind.label_names
    model = EPAGCL(epochs=0, **SMALL).fit(blind)
    z = model.embed(blind)
    content = run_content("x", blind, model, z, trained_metrics(blind, model, "x"), node_table(blind, z), kind="none")
    assert content["map"] is None
    assert content["classes"] is None
    assert content["scores"] is None
    assert content["history"] == {}
    assert content["measures"]["epoch"] == []
    assert [column["name"] for column in map_content(z, node_table(blind, z), "pca", 0)["columns"]] == [
        "degree",
        "cluster",
    ]


def test_clusters_find_groups_and_are_numbered_by_size():
    y = torch.tensor([0] * 5 + [1] * 20 + [2] * 10)
    data = block_model(35, num_classes=3, num_features=10, topic_words=3, words_per_node=2, seed=0)
    data.y = y
    found = node_table(data, torch.eye(3)[y])
    assert found["cluster"].tolist() == [3] * 5 + [1] * 20 + [2] * 10


def test_few_named_features_are_columns(data):
    named = data.clone()
    named.x, named.feature_names = torch.rand(80, 4), ["age", "degree", "x", "map_x"]
    table = node_table(named, torch.rand(80, 4))
    assert table["age"].tolist() == named.x[:, 0].tolist()
    # A second "degree" would hide the first, and nodes.csv has map_x of its own.
    assert list(table.columns) == ["id", "label", "degree", "cluster", "age", "x"]


def test_a_very_large_graph_is_sampled(monkeypatch, data):
    monkeypatch.setattr(room, "MOST", 20)
    z = torch.rand(80, 4, generator=torch.Generator().manual_seed(0))
    places = map_content(z, node_table(data, z), "pca", 0)
    assert places["nodes"] == 80
    assert len(places["ids"]) == len(places["x"]) == 20
    assert max(places["neighbours"]) < 20  # places in the sample
    assert "a sample of 80" in places["note"]
    place = places["ids"].index(places["ids"][7])
    number = int(places["ids"][7][1:])
    assert places["columns"][1]["values"][place] == torch.bincount(data.edge_index[0], minlength=80)[number]


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        ([0.5, None, 2.0], "number", [0.5, None, 2.0]),
        (["b", None, "a"], "category", [0, -1, 1]),
        ([True, False, True], "category", [0, 1, 0]),
        ([np.inf, 1.0, -np.inf], "number", [None, 1.0, None]),  # JSON has no infinities
        ([2**60, 2**60 + 1, 2**60], "category", [0, 1, 0]),  # JavaScript would round them
    ],
)
def test_columns(values, kind, shown):
    found = column_content(pd.Series(values, name="c"))
    assert found["kind"] == kind
    assert found["values"] == shown


def test_text_with_too_many_values_is_shown_and_not_coloured_by():
    assert column_content(pd.Series([f"v{k}" for k in range(200)], name="c"))["colour"]
    assert not column_content(pd.Series([f"v{k}" for k in range(201)], name="c"))["colour"]
    assert column_content(pd.Series([f"v{k}" for k in range(201)], name="label"))["colour"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3.14159, "3.1 s"),
        (59.96, "1 min 0 s"),
        (119.6, "2 min 0 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (7290, "2 h 2 min"),
    ],
)
def test_durations(seconds, words):
    assert room._duration(seconds) == words


def test_numbered_labels_are_in_their_order():
    found = column_content(pd.Series(["10", "9", "0", None], name="label"))
    assert found["levels"] == ["0", "9", "10"]
    assert found["values"] == [2, 1, 0, -1]


def test_a_column_that_spans_decades_is_logarithmic():
    assert column_content(pd.Series([1.0, 2.0, 1.0, 900.0], name="c"))["log"]
    assert not column_content(pd.Series([1.0, 2.0, 3.0], name="c"))["log"]
    assert not column_content(pd.Series([-1.0, 2.0, 1.0, 900.0], name="c"))["log"]


def test_a_report_of_several_runs_says_how_far_they_agree(made):
    *_, content, _ = made
    z = torch.rand(80, 4, generator=torch.Generator().manual_seed(0))
    whole = report([content, content], [z, z])
    assert [one["name"] for one in whole["runs"]] == ["zoo-run (1)", "zoo-run (2)"]
    assert whole["agreement"]["matrix"] == [[1.0, 1.0], [1.0, 1.0]]
    assert whole["agreement"]["verdict"] == "good"
    assert report([content])["agreement"] is None
    assert report([content])["title"] == "EPAGCL on zoo"
    assert report([content, content], [z, z[:70]])["agreement"] is None  # other nodes
    assert report([content, content], [z[:11], z[:11]])["agreement"] is None  # all others are neighbours
    other = report([content, content | {"method": "GRACE"}], [z, z])["agreement"]
    assert other["verdict"] is None
    assert "with other settings" in other["words"]
    seed = [one | {"value": "7"} if one["name"] == "seed" else one for one in content["settings"]]
    assert report([content, content | {"settings": seed}], [z, z])["agreement"]["verdict"] == "good"


def test_one_split_has_no_spread(made):
    _, _, metrics, *_ = made
    one = copy.deepcopy(metrics)
    one["evaluation"]["accuracy"] = {"mean": 0.8, "std": 0.0, "runs": [0.8]}
    assert room._scores("EPAGCL", one)["rows"][-1]["std"] is None
    assert room._scores("EPAGCL", metrics)["rows"][-1]["std"] == metrics["evaluation"]["accuracy"]["std"]


def test_supervised_methods_have_no_label_free_health(tmp_path, data):
    run(data, SupervisedGCN(epochs=3, device="cpu"), tmp_path / "run", plan=Plan(), map_kind="pca")
    content = read_content(tmp_path / "run")
    assert content["health"] == []
    assert content["classes"]["note"] == "the method's own predictions, test nodes of 1 split"
    assert "validation_loss" in content["history"]


def test_a_folder_without_a_report_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no report\.json\.gz; give a folder that `epagcl train` finished"):
        read_content(tmp_path)
    (tmp_path / room.FILE).write_bytes(b"half")
    with pytest.raises(InputError, match="not whole"):
        read_content(tmp_path)
