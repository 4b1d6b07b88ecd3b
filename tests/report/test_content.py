"""The content of a report: every number is that of the run."""

import copy
import json

import numpy as np
import pytest
import torch

from epagcl import EPAGCL, EPAGCLPlus, Propagated, SupervisedGCN
from epagcl.core.errors import InputError
from epagcl.core.neighbours import nearest
from epagcl.data import block_model
from epagcl.report.content import CONTENT_FILE, _scores, read_content, report, run_content
from epagcl.report.nodes import map_content, node_table
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
def finished(data):
    model = EPAGCL(epochs=30, p_add=0.2, **SMALL).fit(data)
    z = model.embed(data)
    metrics = trained_metrics(data, model, "zoo")
    metrics["evaluation"] = evaluate(z, data, Plan(), seed=0)
    steps = []
    nodes = node_table(data, z)
    content = run_content("zoo-run", data, model, z, metrics, nodes, kind="pca", say=steps.append)
    return model, z, metrics, nodes, content, steps


def test_facts_settings_and_curves_are_those_of_the_run(finished, data):
    model, _, metrics, _, content, steps = finished
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
    assert steps[0] == "map: PCA of 80 nodes"
    json.dumps(content, allow_nan=False)


def test_the_map_holds_ids_columns_and_true_neighbours(finished, data):
    _, z, _, _, content, _ = finished
    map_ = content["map"]
    assert map_["ids"] == [f"n{k}" for k in range(80)]
    label, degree, cluster = map_["columns"]
    assert label["levels"][label["values"][5]] == data.label_names[data.y[5]]
    assert degree["values"] == torch.bincount(data.edge_index[0], minlength=80).tolist()
    assert degree["log"]
    assert cluster["kind"] == "category"
    assert np.array(map_["neighbours"]).reshape(80, map_["k"]).tolist() == nearest(z)[0].tolist()
    assert max(abs(value) for value in map_["x"] + map_["y"]) == pytest.approx(1, abs=1e-3)


def test_classes_and_scores_are_those_of_the_metrics(finished):
    _, _, metrics, _, content, _ = finished
    classes, scores = content["classes"], content["scores"]
    assert classes["names"] == ["ape", "bee", "cat"]
    assert sum(classes["support"]) == sum(map(sum, metrics["evaluation"]["confusion"]))
    assert classes["recall"][0] == pytest.approx(classes["confusion"][0][0] / sum(classes["confusion"][0]))
    assert scores["rows"][-1]["accuracy"] == metrics["evaluation"]["accuracy"]["mean"]
    assert scores["rows"][-1]["knn"] == metrics["evaluation"]["knn_accuracy"]["mean"]


def test_without_labels_and_without_training(data):
    unlabelled = data.clone()
    del unlabelled.y, unlabelled.label_names
    model = EPAGCL(epochs=0, **SMALL).fit(unlabelled)
    z = model.embed(unlabelled)
    content = run_content(
        "x", unlabelled, model, z, trained_metrics(unlabelled, model, "x"), node_table(unlabelled, z), kind="none"
    )
    assert content["map"] is None
    assert content["classes"] is None
    assert content["scores"] is None
    assert content["history"] == {}
    assert content["measures"]["epoch"] == []
    assert [column["name"] for column in map_content(z, node_table(unlabelled, z), "pca", 0)["columns"]] == [
        "degree",
        "cluster",
    ]


def test_a_method_without_training_says_so(data):
    model = Propagated(dim=8, device="cpu").fit(data)
    z = model.embed(data)
    content = run_content("x", data, model, z, trained_metrics(data, model, "x"), node_table(data, z), kind="none")
    facts = dict(content["facts"])
    assert facts["Trained"] == "not at all, as the method has no training; computed on cpu"
    assert "Final loss" not in facts
    assert [setting["name"] for setting in content["settings"]] == ["dim", "alpha", "feature_scaling", "seed", "device"]
    assert content["history"] == {}
    assert not [finding for finding in content["health"] if "learning rate" in finding["words"]]


def test_a_report_of_several_runs_has_their_agreement(finished):
    *_, content, _ = finished
    z = torch.rand(80, 4, generator=torch.Generator().manual_seed(0))
    whole = report([content, content], [z, z])
    assert [one["name"] for one in whole["runs"]] == ["zoo-run (1)", "zoo-run (2)"]
    assert whole["agreement"]["matrix"] == [[1.0, 1.0], [1.0, 1.0]]
    assert whole["agreement"]["verdict"] == "good"
    assert report([content])["agreement"] is None
    assert report([content])["title"] == "EPAGCL on zoo"
    assert report([content, content], [z, z[:70]])["agreement"] is None  # other nodes
    assert report([content, content], [z[:11], z[:11]])["agreement"] is None  # every other node is a neighbour
    other = report([content, content | {"method": "GRACE"}], [z, z])["agreement"]
    assert other["verdict"] is None
    assert "different settings" in other["words"]
    seed = [one | {"value": "7"} if one["name"] == "seed" else one for one in content["settings"]]
    assert report([content, content | {"settings": seed}], [z, z])["agreement"]["verdict"] == "good"


def test_one_split_has_no_standard_deviation(finished):
    _, _, metrics, *_ = finished
    one = copy.deepcopy(metrics)
    one["evaluation"]["accuracy"] = {"mean": 0.8, "std": 0.0, "runs": [0.8]}
    assert _scores("EPAGCL", one)["rows"][-1]["std"] is None
    assert _scores("EPAGCL", metrics)["rows"][-1]["std"] == metrics["evaluation"]["accuracy"]["std"]


def test_supervised_methods_have_no_label_free_health(tmp_path, data):
    run(data, SupervisedGCN(epochs=3, device="cpu"), tmp_path / "run", plan=Plan(), map_kind="pca")
    content = read_content(tmp_path / "run")
    assert content["health"] == []
    assert content["classes"]["note"] == "the method's own predictions, test nodes of 1 split"
    assert "validation_loss" in content["history"]


def test_a_folder_without_a_report_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no report\.json\.gz; give the folder of a finished run"):
        read_content(tmp_path)
    (tmp_path / CONTENT_FILE).write_bytes(b"half")
    with pytest.raises(InputError, match=r"report\.json\.gz: damaged \(Not a gzipped file .*\); train the run again$"):
        read_content(tmp_path)


def test_the_note_on_an_untrained_method_is_part_of_the_scores(data, tmp_path):
    model = EPAGCLPlus(epochs=1, **SMALL)
    metrics = run(data, model, tmp_path / "run", name="zoo", plan=Plan(runs=1, references=True), map_kind="none")
    scores = _scores("EPAGCL+", metrics)
    assert [row["name"] for row in scores["rows"]] == ["raw features", "untrained EPAGCL+", "propagated", "EPAGCL+"]
    note = "Untrained EPAGCL+: encoders with initial weights, and everything that it computes without training."
    assert scores["protocol"].startswith(f"strict protocol, 1 run, splits random 10/10/80. {note} EPAGCL+ (")
    assert "loses to propagated" in scores["protocol"]  # after one epoch
    del metrics["references"]
    assert _scores("EPAGCL+", metrics)["protocol"] == "strict protocol, 1 run, splits random 10/10/80"
    assert read_content(tmp_path / "run")["structure"]["probabilities"]["words"].startswith("View 2 drops ")


def test_a_run_from_disk_says_that_it_has_no_report(tmp_path):
    with pytest.raises(InputError, match="give the folder of a finished run"):
        read_content(tmp_path)
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(InputError, match="has no report, since its graph was read from disk"):
        read_content(tmp_path)
