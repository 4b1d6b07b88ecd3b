import json

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

import epagcl
from epagcl.core.errors import InputError
from epagcl.paper import tsne
from epagcl.paper.artefact import Request
from epagcl.study.design import rows
from epagcl.study.store import Store

SMALL = {"device": "cpu", "epochs": 4, "hidden": 16, "dim": 8, "projection": 8}
NODES = 150


@pytest.fixture(autouse=True, scope="module")
def few_nodes():
    """t-SNE of a whole graph takes seconds. One thread, because tests may run in parallel."""
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1):
        patch.setattr(tsne, "LARGE", 1000)
        patch.setattr(tsne, "SAMPLE", NODES)
        yield


@pytest.fixture(scope="module")
def result(request_):
    return tsne.ARTEFACT.make(request_, "epagcl paper tsne")


def a_map(title, silhouette, agreement, map_agreement):
    numbers = {"silhouette": silhouette, "agreement": agreement, "map_agreement": map_agreement}
    return {"title": title, "source": "paper", "device": "cpu", "points": "0 0 100 -250", "seconds": 1.0, **numbers}


def made(*maps, labels="0 1", nodes=2):
    return {
        "graphs": [{"name": "Cora", "nodes": nodes, "shown": 2, "labels": labels, "maps": list(maps)}],
        "absent": {},
    }


def test_a_damaged_record_is_not_stored(request_of):
    asked = request_of(train=False)
    for row in rows(asked.methods):
        asked.store.write(tsne._job(asked, "demo", row).key, {"hardware": {"device": "cpu"}})
    with pytest.raises(InputError, match="no stored results"):
        tsne.ARTEFACT.measure(asked)


@pytest.mark.slow
def test_maps_of_features_and_embedding(result):
    [graph] = result["graphs"]
    assert [one["title"] for one in graph["maps"]] == ["raw features", "EPAGCL"]
    assert (graph["nodes"], graph["shown"], len(graph["labels"].split())) == (2700, NODES, NODES)
    data = epagcl.load("demo")
    nodes = tsne.shown_nodes(data.y)
    assert graph["labels"] == " ".join(str(data.y[node].item()) for node in nodes)
    for one in graph["maps"]:
        assert tsne.points_of(one["points"]).shape == (NODES, 2)
    # The agreement is that of the full space, computed by hand.
    x = data.x.to_dense()[nodes].numpy()
    assert graph["maps"][0]["agreement"] == pytest.approx(by_hand(x, data.y[nodes].numpy()), abs=0.01)


def by_hand(x, y, k=10):
    x = x / np.linalg.norm(x, axis=1, keepdims=True).clip(1e-12)
    near = x @ x.T
    np.fill_diagonal(near, -np.inf)
    return (y[np.argsort(-near, 1, kind="stable")[:, :k]] == y[:, None]).mean()


def test_measures_of_separate_classes_and_of_noise(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    apart = (np.eye(3)[y] + 0.01 * rng.standard_normal((90, 3))).astype(np.float32)
    numbers = tsne.map_and_separation(apart, y, wide=False)
    assert numbers["silhouette"] > 0.98
    assert numbers["agreement"] == 1
    assert numbers["map_agreement"] > 0.95
    noise = tsne.map_and_separation(rng.standard_normal((90, 60)).astype(np.float32), y, wide=True)
    assert abs(noise["silhouette"]) < 0.1
    assert abs(noise["agreement"] - 29 / 89) < 0.08
    points = tsne.points_of(numbers["points"])
    monkeypatch.setattr(tsne, "SCALE", 1000)  # rounding loses at most half of a hundredth
    assert np.abs(tsne.points_of(tsne.map_and_separation(apart, y, wide=False)["points"]) - points).max() <= 0.0055


def test_agreement_excludes_the_node_itself():
    x = np.array([[0.0], [1.0], [10.0], [11.0], [12.0]])
    assert tsne.agreement(x, np.array([0, 0, 1, 1, 1]), "euclidean") == pytest.approx((2 * 1 + 3 * 2) / 20)


def test_features_are_reduced_before_tsne_and_embeddings_are_not(monkeypatch):
    import sklearn.manifold

    seen = []

    class Stub:
        def __init__(self, perplexity, init, random_state):
            seen.append((perplexity, init, random_state))

        def fit_transform(self, x):
            seen.append(x.shape)
            return x[:, :2]

    monkeypatch.setattr(sklearn.manifold, "TSNE", Stub)
    x = np.random.default_rng(0).random((70, 64))
    for wide in (True, False):
        tsne.embed_in_plane(x, wide)
    tsne.embed_in_plane(csr_matrix(x), wide=True)
    tsne.embed_in_plane(csr_matrix(x[:, :8]), wide=True)
    assert seen[1::2] == [(70, 50), (70, 64), (70, 50), (70, 8)]
    assert seen[0] == (23, "pca", 0)
    tsne.embed_in_plane(np.zeros((500, 4)), wide=False)
    assert seen[-2][0] == 30


def test_rows_of_sparse_and_dense_features_are_the_same():
    x = torch.randn(6, 5).relu()
    nodes = torch.tensor([1, 4])
    for layout in (x, x.to_sparse_csr(), x.to_sparse()):
        rows = tsne._rows(layout, nodes)
        rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
        assert np.array_equal(rows, x[nodes].numpy())


def test_nodes_without_a_class_are_not_shown():
    y = torch.tensor([0, -1, 1, 0, -1])
    assert tsne.shown_nodes(y).tolist() == [0, 2, 3]
    many = torch.arange(3000) % 3
    nodes = tsne.shown_nodes(many)
    assert len(nodes.unique()) == NODES
    assert torch.equal(nodes, tsne.shown_nodes(many))


def test_a_second_call_computes_nothing(request_, result, monkeypatch):
    monkeypatch.setattr(Store, "remember", lambda *_: pytest.fail("computed again"))
    assert tsne.measure(request_)["graphs"] == result["graphs"]
    options = {key: getattr(request_, key) for key in ("datasets", "runs", "protocols", "store", "settings")}
    read = Request(**options, methods=("grace",), train=False)
    assert [one["title"] for one in tsne.measure(read)["graphs"][0]["maps"]] == ["raw features"]


def test_files_of_a_result(result, tmp_path):
    result = json.loads(json.dumps(result))
    files = tsne.ARTEFACT.write(result, tmp_path)
    assert {file.name for file in files} == {f"tsne.{s}" for s in ("json", "md", "tex", "csv", "svg", "png")}
    assert all(file.stat().st_size > 100 for file in files)
    assert "of demo 150 of 2,700" in tsne.tables(result)[0].note
    assert len(tsne.reading(result)) == 1


def test_table():
    [table] = tsne.tables(made(a_map("raw features", 0.01, 0.5, 0.4), a_map("EPAGCL", 0.2, 0.8, 0.79)))
    assert [[str(cell) for cell in row] for row in table.rows] == [
        ["Cora", "raw features", "0.010", "50.0%", "40.0%"],
        ["Cora", "EPAGCL", "0.200", "80.0%", "79.0%"],
    ]
    assert [cell.mark for cell in table.rows[1][2:]] == ["best"] * 3


@pytest.mark.parametrize(
    ("numbers", "start"),
    [
        ((0.3, 0.8, 0.79), "**EPAGCL\\* on Cora separates the classes better than the raw features by every measure**"),
        ((0.0, 0.5, 0.4), "**EPAGCL\\* on Cora separates the classes no better than the raw features by any measure**"),
        (
            (-0.02, 0.8, 0.4),
            "**EPAGCL\\* on Cora separates the classes better than the raw features by some measures, not by all**: "
            "silhouette 0.01 → −0.02",
        ),
    ],
)
def test_reading(numbers, start):
    [paragraph] = tsne.reading(made(a_map("raw features", 0.01, 0.5, 0.4), a_map("EPAGCL*", *numbers)))
    assert paragraph.startswith(start)
    assert ("so classes still overlap" in paragraph) == (numbers[0] < 0.25)


def test_empty_result_and_many_classes():
    empty = {"graphs": [], "absent": {"Cora": "data are absent"}}
    assert tsne.figures(empty) == {}
    assert tsne.reading(empty) == ["Not measured: Cora (data are absent here)."]
    assert tsne.reading({"graphs": [], "absent": {}}) == ["Nothing is measured yet."]
    assert len({*tsne._colours(np.arange(40))}) == 40
    assert len({*tsne._colours(np.arange(10))}) == 10
    assert tsne.figures(made(a_map("raw features", 0.1, 0.5, 0.4), labels="0 39"))[""].axes
