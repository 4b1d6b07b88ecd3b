from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Data

import epagcl
from epagcl.core.errors import InputError
from epagcl.data import block_model, undirected_pairs
from epagcl.data.structural.features import with_structural_features
from epagcl.tasks import predict_links, split_edges
from epagcl.tasks.links import COSINE, FITTED, LinkPrediction, _auc, fitted_score


@pytest.fixture(scope="module")
def ring():
    """Nodes on a ring, with their place as features and edges to near nodes: features explain the edges."""
    place = torch.arange(240) * 2 * np.pi / 240
    near = torch.cat([torch.stack([torch.arange(240), (torch.arange(240) + step) % 240]) for step in (3, 5, 8)], 1)
    return Data(x=torch.stack([place.cos(), place.sin()], 1), edge_index=near, num_nodes=240)


def test_the_model_sees_training_edges_only(ring, monkeypatch):
    graphs = []
    model = epagcl.Propagated(dim=8)
    fit = model.fit
    monkeypatch.setattr(model, "fit", lambda data, **options: (graphs.append(data), fit(data, **options))[1])
    result = predict_links(ring, model)
    seen = undirected_pairs(graphs[0].edge_index, 240).numpy()
    assert seen.tolist() == result.split.train.tolist() == split_edges(ring).train.tolist()
    assert result.split.test.shape[1] == 72


def test_an_embedding_that_knows_the_edges_wins_and_the_verdict_says_so(ring):
    result = predict_links(ring, epagcl.Propagated(dim=8))
    assert result.scores[result.chosen].auc > 0.95
    assert set(result.scores) > {COSINE, FITTED, "Adamic–Adar"}
    found = result.to_dict()
    assert found["edges"] == {"train": 612, "val": 36, "test": 72}
    assert (found["split"], found["ranked_among"], len(found["rows"])) == ("random", 238, 8)
    assert result.interval[0] <= result.difference <= result.interval[1]


@pytest.mark.slow
def test_an_embedding_of_noise_loses_and_the_verdict_says_so():
    data = block_model(300, num_classes=3, num_features=20, topic_words=5, average_degree=12, seed=0)
    data.x = torch.randn(300, 20, generator=torch.Generator().manual_seed(0))
    result = predict_links(data, epagcl.Propagated(dim=2))
    assert result.best_baseline in ("preferential attachment", "Adamic–Adar", "common neighbours")
    assert result.difference < 0
    assert "loses to" in result.verdict


@pytest.mark.parametrize(
    ("interval", "words"),
    [((0.1, 0.2), "better than"), ((-0.2, -0.1), "loses to"), ((-0.1, 0.1), "does not differ clearly from")],
)
def test_verdicts(ring, interval, words):
    result = predict_links(ring, epagcl.Propagated(dim=4))
    changed = LinkPrediction(**{**vars(result), "interval": interval})
    assert words in changed._repr_html_()
    assert f"<td>{result.scores[result.chosen].auc:.3f}</td>" in changed._repr_html_()
    assert words in changed.verdict


@pytest.mark.slow
def test_results_are_reproducible(ring):
    first, second = (predict_links(ring, epagcl.Propagated(dim=4), seed=3) for _ in range(2))
    assert first.to_dict() == second.to_dict()


def test_by_time(ring):
    result = predict_links(ring, epagcl.Propagated(dim=4), times=torch.arange(720))
    assert result.split.kind == "by time"


def test_structural_features_are_computed_from_training_edges(ring, caplog):
    from epagcl.data.structural import with_structural_features

    graphs = []

    def features(graph):
        graphs.append(graph)
        return with_structural_features(graph, kinds=("degree", "projection"), dim=9)

    bare = Data(edge_index=ring.edge_index, num_nodes=240)
    result = predict_links(bare, epagcl.Propagated(dim=8), features=features)
    assert undirected_pairs(graphs[0].edge_index, 240).tolist() == result.split.train.tolist()
    assert not caplog.messages
    data = with_structural_features(bare, kinds=("degree", "projection"), dim=9)
    predict_links(data, epagcl.Propagated(dim=8))
    assert caplog.messages[0].startswith("degree, projection_0, projection_1, ...: computed from all edges?")


def test_labels_must_not_be_learned_from(ring):
    with pytest.raises(InputError, match=r"^method: gcn learns from labels; give one that learns without$"):
        predict_links(ring, epagcl.SupervisedGCN())


def test_the_fitted_score_is_the_regression():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(50, 3)).astype(np.float32)
    edges, others = generator.integers(50, size=(2, 40)), generator.integers(50, size=(2, 40))
    score = fitted_score(rows, edges, others)
    pairs = np.concatenate([edges, others], 1)
    products = rows[pairs[0]] * rows[pairs[1]]
    scale = np.sqrt(np.square(products).mean())
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.1).fit(products / scale, np.repeat([1, 0], 40))
    assert score(pairs) == pytest.approx(model.decision_function(products / scale), abs=1e-4)


def test_auc_is_that_of_scikit_learn():
    scores = np.random.default_rng(0).integers(0, 10, 60).astype(float)
    assert _auc(scores, 25) == pytest.approx(roc_auc_score(np.repeat([1, 0], [25, 35]), scores))


def test_random_ratings_cannot_be_predicted(tmp_path):
    """Pairs of two users, which are never edges, would make the task of a bipartite graph trivial."""
    generator = np.random.default_rng(0)
    path = tmp_path / "ratings.csv"
    ratings = np.stack([generator.integers(60, size=700), generator.integers(80, size=700)], 1)
    path.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in ratings.tolist()))
    data = epagcl.read_graph(edges=path, bipartite=True, need_features=False)
    assert data.node_type.tolist() == [int(str(node).startswith("user:")) for node in data.node_ids]
    features = partial(with_structural_features, seed=0)
    result = predict_links(data, epagcl.Propagated(dim=16, device="cpu"), features=features)
    assert abs(result.scores["embedding, cosine"].auc - 0.5) < 0.15
    assert abs(result.scores["features, cosine"].auc - 0.5) < 0.15
