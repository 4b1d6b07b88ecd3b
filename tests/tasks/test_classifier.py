import numpy as np
import pytest

from epagcl.core.errors import InputError
from epagcl.tasks import classify
from epagcl.tasks.classifier import Classification


def blobs(nodes=300, k=3, spread=0.6, seed=0):
    generator = np.random.default_rng(seed)
    y = np.arange(nodes) % k
    return generator.normal(size=(k, 12))[y] + spread * generator.normal(size=(nodes, 12)), y


def some(y, count):
    return [int(label) if node < count else -1 for node, label in enumerate(y)]


@pytest.mark.slow
def test_unlabelled_nodes_are_predicted_with_calibrated_probabilities():
    z, y = blobs(600, spread=1.5)
    result = classify(z, some(y, 150), curve=False)
    right = np.array(result.predicted)[150:] == y[150:].astype(str)
    assert result.accuracy == pytest.approx(right.mean(), abs=0.08)
    assert result.probabilities.sum(1) == pytest.approx(np.ones(600))
    confidence = result.probabilities[150:].max(1)
    assert confidence.mean() == pytest.approx(right.mean(), abs=0.08)
    assert result.calibration_error is not None
    assert result.calibration_error < 0.15
    assert result.curve is None


@pytest.mark.slow
def test_classes_with_one_label_are_named_and_never_predicted():
    z, y = blobs(60)
    names = [["red", "green", "blue"][label] if node < 13 else None for node, label in enumerate(y)]
    names = [None if name == "blue" and node != 2 else name for node, name in enumerate(names)]
    result = classify(z, names)
    assert result.left_out == ["blue"]
    assert result.classes == ["green", "red"]
    assert set(result.predicted) == {"green", "red"}
    words = result.words()
    assert words[0] == "Classes with one label are never predicted: blue. Give each at least 2 labels."
    assert words[1].startswith("Probabilities are not calibrated: 9 labelled nodes")
    assert (result.temperature, result.calibration_error) == (1.0, None)


def test_two_labels_per_class_are_enough():
    z, y = blobs(60, spread=0.1)
    result = classify(z, some(y, 6))
    assert (np.array(result.predicted) == y.astype(str)).mean() > 0.9
    assert result.labelled == 6


def test_labels_without_meaning_are_called_so():
    z = np.random.default_rng(0).normal(size=(80, 4))
    y = np.random.default_rng(3).permutation(np.repeat([0, 1], [60, 20]))
    result = classify(z, y, curve=False)
    assert result.majority == 0.75
    assert any("is not above always predicting the largest class (0.750)" in words for words in result.words())


@pytest.mark.slow
def test_the_table_and_the_dict():
    z, y = blobs(90, spread=0.2)
    result = classify(z, some(y, 60))
    table = result.table(range(90))
    assert table.columns.tolist() == ["id", "predicted", "probability", "p_0", "p_1", "p_2"]
    assert table["probability"].tolist() == pytest.approx(table[["p_0", "p_1", "p_2"]].max(axis=1).tolist())
    found = result.to_dict()
    assert (found["labelled"], found["accuracy"], found["classes"]) == (60, 1.0, ["0", "1", "2"])
    assert found["curve"]["points"][-1]["accuracy"] == 1.0
    assert isinstance(result, Classification)


@pytest.mark.slow
def test_equal_seeds_give_equal_results():
    z, y = blobs(90)
    first, second = (classify(z, some(y, 45), curve=False) for _ in range(2))
    assert np.array_equal(first.probabilities, second.probabilities)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], "y: 2 labels for 60 nodes; give one per node, −1 for none"),
        ([-1] * 60, "y: at least 2 classes need 2 labels each, and there are: none; label more nodes"),
        (
            [0, 0, 1, *[-1] * 57],
            "y: at least 2 classes need 2 labels each, and there are: 0 2, 1 1; label more nodes",
        ),
    ],
)
def test_wrong_labels(y, message):
    with pytest.raises(InputError, match=f"^{message}$"):
        classify(blobs(60)[0], y)


@pytest.mark.parametrize("seed", range(4))
def test_a_solver_that_stops_at_rounding_says_nothing(seed):
    rows = np.eye(2).repeat(30, 0) + 0.1 * np.random.default_rng(seed).normal(size=(60, 2))
    labels = [None] * 60
    labels[:5], labels[30:35] = ["red"] * 5, ["blue"] * 5
    assert classify(rows, labels).accuracy == 1.0  # a warning would be an error


def test_a_solver_that_runs_out_of_steps_warns(monkeypatch):
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    fit = LogisticRegression.fit
    monkeypatch.setattr(LogisticRegression, "fit", lambda self, *rows: fit(self.set_params(max_iter=1), *rows))
    rows = np.random.default_rng(0).normal(size=(40, 5))
    with pytest.warns(ConvergenceWarning, match="ITERATIONS"):
        classify(rows, np.arange(40) % 2)
