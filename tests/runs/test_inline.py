import json

import epagcl
from epagcl.data import block_model
from epagcl.runs.inline import inline_report
from tests.report.browser import unpacked


def content(report):
    (run,) = json.loads(unpacked(report.page, "payload"))["runs"]
    return run


def test_with_labels_the_references_are_scored():
    data = block_model(90, num_classes=3, num_features=30, topic_words=10, words_per_node=6, seed=1)
    data.name = "made"
    model = epagcl.EPAGCL(epochs=2, hidden=8, dim=4, projection=4, device="cpu").fit(data)
    run = content(inline_report(model, data, kind="pca"))
    names = [row["name"] for row in run["scores"]["rows"]]
    assert names == ["raw features", "untrained encoder", "propagated", "EPAGCL"]
    assert run["graph"] == "made"
    assert run["verdict"]["next"][-1]["command"] == "epagcl.classify(z, labels)"
    assert len(run["drivers"]["joined"]) == 900


def test_without_labels_or_evaluation_there_are_no_scores():
    data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
    model = epagcl.Propagated(dim=4, device="cpu").fit(data)
    assert content(inline_report(model, data, evaluate=False, kind="none"))["scores"] is None
    data.y = data.y * 0  # one class
    assert content(inline_report(model, data, kind="none"))["scores"] is None
    data.y = None
    assert content(inline_report(model, data, kind="none"))["scores"] is None
