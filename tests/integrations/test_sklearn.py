"""Methods and nodes in scikit-learn's pipelines, searches and folds."""

import copy
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import epagcl
from epagcl import EPAGCL, GRACE, NodeEmbedder, SupervisedGCN
from epagcl.core.errors import InputError
from epagcl.integrations import sklearn as pipeline

SMALL = {"epochs": 2, "hidden": 8, "dim": 6, "projection": 6, "device": "cpu"}


@pytest.fixture(autouse=True)
def trainings(monkeypatch):
    """The settings of each model that is trained, starting with an empty cache."""
    pipeline._cache.clear()
    count = []
    fit = EPAGCL.fit
    monkeypatch.setattr(EPAGCL, "fit", lambda self, *a, **k: count.append(self.settings()) or fit(self, *a, **k))
    yield count
    pipeline._cache.clear()


def nodes_of(data):
    return np.arange(data.num_nodes), data.y.numpy()


# ---- Methods as transformers of graphs


@pytest.mark.parametrize("name", epagcl.methods())
def test_every_method_transforms(small_graph, name):
    cls = epagcl.method(name)
    settings = {field.name for field in cls.setting_fields()}
    model = cls(**{key: value for key, value in SMALL.items() if key in settings})
    z = model.fit_transform(small_graph)
    assert type(z) is np.ndarray
    assert z.dtype == np.float32
    assert np.array_equal(z, model.embed(small_graph).numpy())
    names = model.get_feature_names_out()
    assert names.tolist() == [f"{cls.__name__.lower()}{k}" for k in range(z.shape[1])]


def test_a_pipeline_over_graphs(small_graph):
    steps = [EPAGCL(**SMALL), StandardScaler(), KMeans(3, n_init=1, random_state=0)]
    pipe = make_pipeline(*steps)
    clusters = pipe.fit_predict(small_graph)
    z = StandardScaler().fit_transform(EPAGCL(**SMALL).fit_embed(small_graph).numpy())
    assert np.array_equal(clusters, KMeans(3, n_init=1, random_state=0).fit_predict(z))
    assert np.array_equal(pipe.predict(small_graph), clusters)
    assert pipe[:-1].get_feature_names_out().tolist() == [f"epagcl{k}" for k in range(6)]


def test_callbacks_pass_through_a_pipeline(small_graph):
    seen = []
    make_pipeline(EPAGCL(**SMALL), StandardScaler()).fit(small_graph, epagcl__callback=seen.append)
    assert [row["epoch"] for row in seen] == [1, 2]


def test_pandas_output(small_graph):
    model = EPAGCL(**SMALL).set_output(transform="pandas")
    frame = model.fit_transform(small_graph)
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns.tolist() == [f"epagcl{k}" for k in range(6)]
    assert np.array_equal(frame.to_numpy(), model.embed(small_graph).numpy())


def test_an_untrained_method_does_not_transform(small_graph):
    with pytest.raises(InputError, match="this EPAGCL is not trained"):
        EPAGCL().transform(small_graph)


def test_a_fitted_method_survives_pickle_and_joblib(small_graph, tmp_path):
    model = EPAGCL(**SMALL).fit(small_graph)
    joblib.dump(model, tmp_path / "model.joblib")
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        assert again.get_params() == model.get_params()
        assert torch.equal(again.embed(small_graph), model.embed(small_graph))


# ---- Nodes as samples


def test_rows_of_the_embedding(small_graph):
    z = EPAGCL(**SMALL).fit_embed(small_graph).numpy()
    embedder = NodeEmbedder(EPAGCL(**SMALL), small_graph)
    wanted = [5, 0, 59, 5]
    assert np.array_equal(embedder.fit_transform(wanted), z[wanted])
    for nodes in (np.array(wanted), np.array(wanted)[:, None], torch.tensor(wanted), pd.Series(wanted)):
        assert np.array_equal(embedder.transform(nodes), z[wanted])
    assert np.array_equal(embedder.embedding_, z)
    assert np.array_equal(embedder.method_.transform(small_graph), z)
    assert embedder.get_feature_names_out().tolist() == [f"nodeembedder{k}" for k in range(6)]
    frame = embedder.set_output(transform="pandas").transform(pd.DataFrame({"node": wanted}, index=list("abcd")))
    assert frame.index.tolist() == list("abcd")
    assert np.array_equal(frame.to_numpy(), z[wanted])


@pytest.mark.parametrize("ids", [[f"n{k}" for k in range(60)], list(range(100, 160)), list(range(59, -1, -1))])
def test_nodes_by_id(small_graph, ids):
    data = small_graph.clone()
    data.node_ids = np.array(ids, dtype=np.int64 if isinstance(ids[0], int) else object)
    embedder = NodeEmbedder(EPAGCL(**SMALL), data, by="id").fit()
    wanted = [7, 0, 59]
    assert np.array_equal(embedder.transform([ids[k] for k in wanted]), embedder.embedding_[wanted])
    with pytest.raises(InputError, match=r"X: 1 id not in the graph \(stranger\); leave them out"):
        embedder.transform(["stranger", ids[0]])


def test_cross_validation_trains_once_and_scores_the_embedding(small_graph, trainings):
    X, y = nodes_of(small_graph)
    pipe = make_pipeline(NodeEmbedder(EPAGCL(**SMALL), small_graph), LogisticRegression())
    scores = cross_val_score(pipe, X, y, cv=5)
    assert len(trainings) == 1
    z = EPAGCL(**SMALL).fit_embed(small_graph).numpy()
    assert np.array_equal(scores, cross_val_score(LogisticRegression(), z, y, cv=5))


def test_a_search_trains_each_setting_once(small_graph, trainings):
    X, y = nodes_of(small_graph)
    pipe = Pipeline([("embed", NodeEmbedder(EPAGCL(**SMALL), small_graph)), ("classify", LogisticRegression())])
    grid = {"embed__method__p_add": [0.1, 0.4], "classify__C": [0.1, 1.0]}
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    search = GridSearchCV(pipe, grid, cv=3).fit(X_train, y_train)
    assert sorted(settings["p_add"] for settings in trainings) == [0.1, 0.4]
    best = search.best_params_["embed__method__p_add"]
    z = EPAGCL(**SMALL, p_add=best).fit_embed(small_graph).numpy()
    classifier = LogisticRegression(C=search.best_params_["classify__C"]).fit(z[X_train], y_train)
    assert search.score(X_test, y_test) == classifier.score(z[X_test], y_test)
    assert pipe["embed"].method.p_add == EPAGCL().p_add  # the search works on clones


def test_methods_can_be_searched_over(small_graph):
    X, y = nodes_of(small_graph)
    pipe = Pipeline([("embed", NodeEmbedder(EPAGCL(**SMALL), small_graph)), ("classify", LogisticRegression())])
    search = GridSearchCV(pipe, {"embed__method": [EPAGCL(**SMALL), GRACE(**SMALL)]}, cv=2).fit(X, y)
    for place, cls in enumerate((EPAGCL, GRACE)):
        z = cls(**SMALL).fit_embed(small_graph).numpy()
        expected = cross_val_score(LogisticRegression(), z, y, cv=2).mean()
        assert search.cv_results_["mean_test_score"][place] == pytest.approx(expected)


def test_threads_that_need_the_same_model_train_it_once(small_graph, trainings):
    X, y = nodes_of(small_graph)
    pipe = make_pipeline(NodeEmbedder(EPAGCL(**SMALL), small_graph), LogisticRegression())
    with joblib.parallel_backend("threading", n_jobs=4):
        cross_val_score(pipe, X, y, cv=4)
    assert len(trainings) == 1


def test_labels_do_not_leak(small_graph):
    X, y = nodes_of(small_graph)
    scrambled = small_graph.clone()
    scrambled.y = scrambled.y.flip(0)
    fitted = [
        NodeEmbedder(EPAGCL(**SMALL), data).fit(X, labels) for data, labels in ((small_graph, y), (scrambled, 1 - y))
    ]
    pipeline._cache.clear()
    fitted.append(NodeEmbedder(EPAGCL(**SMALL), scrambled).fit(X, y))
    assert np.array_equal(fitted[0].embedding_, fitted[1].embedding_)
    assert np.array_equal(fitted[0].embedding_, fitted[2].embedding_)


# ---- The cache of trained models


def changed(data, key, value):
    other = data.clone()
    other[key] = value
    return other


def test_a_change_of_anything_training_reads_trains_another_model(small_graph, trainings):
    dense = small_graph.x.to_dense()
    base = changed(small_graph, "x", dense)
    nudged = dense.clone()
    nudged[0, 0] += 1e-6
    edges = base.edge_index
    loose = edges[:, (edges != edges[0, 0]).all(0)]
    graphs = [base, changed(base, "x", -dense), changed(base, "x", nudged), changed(base, "edge_index", loose)]
    for data in graphs:
        NodeEmbedder(EPAGCL(**SMALL), data).fit()
    assert len(trainings) == 4
    for settings in ({"seed": 1}, {"lr": 0.01}, {"epochs": 1}):
        NodeEmbedder(EPAGCL(**{**SMALL, **settings}), base).fit()
    assert len(trainings) == 7
    for data in (graphs[0], base.clone(), changed(base, "y", base.y.flip(0))):
        NodeEmbedder(EPAGCL(**SMALL), data).fit()
    assert len(trainings) == 7


def test_a_class_that_is_defined_again_is_another_method(small_graph):
    def define(sign):
        class Again(EPAGCL):
            def represent(self, network, graph):
                return sign * super().represent(network, graph)

        return Again

    first, second = (NodeEmbedder(define(sign)(**SMALL), small_graph).fit().embedding_ for sign in (1, -1))
    assert np.array_equal(first, -second)


def test_the_cache_is_bounded_and_drops_the_oldest(small_graph, trainings, monkeypatch):
    monkeypatch.setattr(pipeline, "MAX_CACHED", 2)
    for seed in (0, 1, 0, 2, 0):
        NodeEmbedder(EPAGCL(**SMALL, seed=seed), small_graph).fit()
    assert [settings["seed"] for settings in trainings] == [0, 1, 2]
    assert len(pipeline._cache) == 2
    NodeEmbedder(EPAGCL(**SMALL, seed=1), small_graph).fit()
    assert [settings["seed"] for settings in trainings] == [0, 1, 2, 1]


def test_cached_models_cannot_be_changed(small_graph):
    X, _ = nodes_of(small_graph)
    first = NodeEmbedder(EPAGCL(**SMALL), small_graph).fit()
    before = first.embedding_.copy()
    with pytest.raises(ValueError, match="read-only"):
        first.embedding_[0] = 0
    first.transform(X)[:] = 0
    first.method_.set_params(seed=9).fit(small_graph)
    again = NodeEmbedder(EPAGCL(**SMALL), small_graph).fit()
    assert np.array_equal(again.transform(X), before)
    assert np.array_equal(again.method_.transform(small_graph), before)


# ---- The conventions of scikit-learn


def test_params_reach_the_method(small_graph):
    embedder = NodeEmbedder(EPAGCL(**SMALL), small_graph)
    assert embedder.get_params(deep=False).keys() == {"method", "data", "by"}
    assert embedder.get_params()["method__p_add"] == embedder.method.p_add
    embedder.set_params(method__p_add=0.25, by="id")
    assert (embedder.method.p_add, embedder.by) == (0.25, "id")
    with pytest.raises(InputError, match=r"p_add=2.0: a probability lies between 0 and 1"):
        embedder.set_params(method__p_add=2.0, by="number").fit()


def test_clones_share_the_graph_and_nothing_else(small_graph):
    embedder = NodeEmbedder(EPAGCL(**SMALL), small_graph, by="number").fit()
    other = clone(embedder)
    assert other.data is small_graph
    assert other.method is not embedder.method
    assert other.method.get_params() == embedder.method.get_params()
    assert other.by == embedder.by
    assert not hasattr(other, "embedding_")
    assert not hasattr(clone(embedder.method_), "network_")


def test_repr_and_html(small_graph):
    embedder = NodeEmbedder(EPAGCL(**SMALL), small_graph)
    pipe = make_pipeline(embedder, LogisticRegression())
    assert "method=EPAGCL(device='cpu', dim=6, epochs=2, hidden=8," in repr(embedder)
    for estimator in (embedder, embedder.method, pipe):
        for fitted in (False, True):
            page = estimator_html_repr(estimator)
            assert "EPAGCL" in page
            if not fitted and estimator is not embedder.method:
                estimator.fit(*nodes_of(small_graph))


def test_a_fitted_pipeline_survives_pickle_and_joblib(small_graph, tmp_path, trainings):
    X, y = nodes_of(small_graph)
    pipe = make_pipeline(NodeEmbedder(EPAGCL(**SMALL), small_graph), LogisticRegression()).fit(X, y)
    joblib.dump(pipe, tmp_path / "pipe.joblib")
    pipeline._cache.clear()
    for again in (pickle.loads(pickle.dumps(pipe)), joblib.load(tmp_path / "pipe.joblib")):
        assert np.array_equal(again.predict_proba(X), pipe.predict_proba(X))
    assert len(trainings) == 1


def test_column_names_are_part_of_the_model(small_graph):
    named = small_graph.clone()
    named.feature_names = [f"w{k}" for k in range(small_graph.num_features)]
    assert NodeEmbedder(EPAGCL(**SMALL), small_graph).fit().method_.feature_names_ is None
    assert NodeEmbedder(EPAGCL(**SMALL), named).fit().method_.feature_names_ == named.feature_names


def test_a_clone_keeps_its_class_and_its_output(small_graph):
    class Own(NodeEmbedder):
        pass

    cloned = clone(Own(EPAGCL(**SMALL), small_graph).set_output(transform="pandas"))
    assert type(cloned) is Own
    assert isinstance(cloned.fit().transform([1, 2]), pd.DataFrame)
    copied = copy.deepcopy(cloned)
    assert copied.data is cloned.data
    assert copied.method is not cloned.method
    assert cloned.transform([]).shape == (0, cloned.embedding_.shape[1])


# ---- Mistakes


def test_mistakes(small_graph):
    def fails(embedder, X=None):
        with pytest.raises(InputError) as error:
            embedder.fit(X)
        return str(error.value)

    good = EPAGCL(**SMALL)
    assert fails(NodeEmbedder(SupervisedGCN(), small_graph)).startswith(
        "method: gcn is supervised and would see the test labels of each fold"
    )
    hint = "method: a str is not a method; give one such as epagcl.EPAGCLPlus()"
    assert fails(NodeEmbedder("epagcl", small_graph)) == hint
    assert fails(NodeEmbedder(good, small_graph, by="name")) == "by='name': choose one of number, id"
    assert fails(NodeEmbedder(good, "graph")).startswith("graph: str is not a torch_geometric.data.Data")
    assert fails(NodeEmbedder(good, small_graph, by="id"), ["a"]).startswith("by='id': the graph has no node_ids")
    for X, words in (
        ([60], "X: no node 60; nodes are 0 to 59, or ids with by='id'"),
        ([-1], "X: no node -1; nodes are 0 to 59, or ids with by='id'"),
        (["a"], "values are not node numbers; give integers, or ids with by='id'"),
        (np.eye(3), "X has shape (3, 3); give one node per row"),
    ):
        assert words in fails(NodeEmbedder(good, small_graph), X)
    with pytest.raises(InputError, match="this NodeEmbedder is not trained; call fit first"):
        NodeEmbedder(good, small_graph).transform([0])
