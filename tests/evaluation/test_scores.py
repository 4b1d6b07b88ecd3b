import pytest
import torch
from sklearn.metrics import confusion_matrix as sklearn_confusion_matrix
from sklearn.metrics import f1_score, precision_recall_fscore_support

from epagcl.data import Split
from epagcl.evaluation.scores import (
    Evaluation,
    class_scores,
    confusion_matrix,
    evaluation_of_tables,
    prediction_evaluation,
)


def test_scores_equal_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    truth, prediction = (torch.randint(0, 5, (200,), generator=generator) for _ in range(2))
    prediction[prediction == 3] = 2  # a class that is never predicted
    table = confusion_matrix(prediction, truth, 6)
    assert table[:5, :5].tolist() == sklearn_confusion_matrix(truth, prediction).tolist()
    result = evaluation_of_tables("strict", "", [], [table, table], [], torch.arange(6))
    assert result.runs == pytest.approx([(truth == prediction).double().mean().item()] * 2)
    assert result.macro_f1 == pytest.approx([f1_score(truth, prediction, average="macro")] * 2)
    assert result.confusion == (2 * table).tolist()
    scores = class_scores(result.confusion)
    precision, recall, f1, support = precision_recall_fscore_support(truth, prediction, zero_division=float("nan"))
    assert scores["precision"][:5].numpy() == pytest.approx(precision, nan_ok=True)
    assert scores["recall"][:5].numpy() == pytest.approx(recall)
    assert scores["support"][:5].tolist() == (2 * support).tolist()
    assert scores["f1"][:5].numpy() == pytest.approx(f1)
    assert all(scores[name][5].isnan() for name in ("precision", "recall", "f1"))


def test_mean_std_and_dict_of_an_evaluation():
    result = Evaluation("strict", "words", [], [0.5, 0.7], [0.4, 0.6], [{}, {}], [0, 1], [[1, 0], [0, 1]])
    assert result.mean == pytest.approx(0.6)
    assert result.std == pytest.approx(0.1 * 2**0.5)
    assert result.micro_f1 == [0.5, 0.7]
    assert Evaluation("strict", "words", [], [0.5], [0.4], [{}], [], []).std == 0
    assert result.to_dict()["macro_f1"]["std"] == pytest.approx(0.1 * 2**0.5)


def test_predictions_are_scored_on_test_nodes_alone():
    y = torch.tensor([3, 3, 7, 7, 9, 9, 3, 7, -1])
    split = Split(torch.tensor([0, 2]), torch.tensor([1, 3]), torch.tensor([4, 5, 6, 7, 8]))
    prediction = torch.tensor([9, 9, 9, 9, 9, 3, 3, 7, 7])  # wrong wherever it does not count
    result = prediction_evaluation(prediction, y, split, "strict", 5)
    assert result.runs == [0.75]
    assert result.macro_f1[0] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)  # of 9, 3 and 7
    assert result.split_seeds == [5]


def test_notebooks_show_a_table():
    result = Evaluation("strict", "random 10/10/80", [0, 1], [0.8, 0.9], [0.7, 0.7], [], [0, 1], [[1, 0], [0, 1]])
    page = result._repr_html_()
    assert '<th scope="row">accuracy</th><td>85.0 ± 7.1</td>' in page
    assert "Protocol strict, 2 runs, splits random 10/10/80" in page
