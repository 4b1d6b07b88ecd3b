"""Labels as class numbers."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from epagcl.core.errors import InputError
from epagcl.data.labels import check_labels, class_numbers, encode_labels, label_array


def messages(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("labels", "y", "names"),
    [
        ([0, 1, 1, 2], [0, 1, 1, 2], None),
        ([0, -1, 1], [0, -1, 1], None),
        ([0.0, float("nan"), 1.0], [0, -1, 1], None),
        ([10, 2, 10], [1, 0, 1], ["2", "10"]),
        (["10", "2", ""], [1, 0, -1], ["2", "10"]),
        (["b", "a", None, " b "], [1, 0, -1, 1], ["a", "b"]),
        (["b", 1, "a"], [2, 0, 1], ["1", "a", "b"]),
        (torch.tensor([[1], [0]]), [1, 0], None),
        (np.array([True, False]), [1, 0], None),
        ([None, None, 0], [-1, -1, 0], None),
    ],
)
def test_encoded_labels(labels, y, names):
    found, found_names = encode_labels(labels, "l")
    assert found.dtype == torch.int64
    assert found.tolist() == y
    assert found_names == names


def test_labels_plus_and_minus_one_warn(caplog):
    assert encode_labels([-1, 1, 1], "l")[0].tolist() == [-1, 0, 0]
    assert messages(caplog) == ["l: label −1 means no label (nodes with it: 1)"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5, 1], "l: labels are not whole numbers; give class numbers 0, 1, ... or names"),
        ([float("inf"), 1], "l: labels are not whole numbers; give class numbers 0, 1, ... or names"),
        ([-4, 1], "l: label -4; give class numbers 0, 1, ... (−1 for none) or names"),
        ([[0, 1], [1, 0]], "l: labels have shape (2, 2); give one per node"),
    ],
)
def test_errors_of_labels(labels, message):
    with pytest.raises(InputError) as error:
        encode_labels(labels, "l")
    assert str(error.value) == message


def test_labels_with_a_gradient():
    assert encode_labels(torch.tensor([1.0, 0.0], requires_grad=True), "l")[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("y", "expected", "names"),
    [
        ([2, 0, 7], [2, 0, 7], None),
        ([0.0, None, 1.0], [0, -1, 1], None),
        ([True, False], [1, 0], None),
        (pd.Series([1, 0], index=[1, 0]), [1, 0], None),
        (["b", "a", None], [1, 0, -1], ["a", "b"]),
        (["1", "0"], [1, 0], ["0", "1"]),
        ([torch.tensor(1), torch.tensor(0)], [1, 0], None),
    ],
)
def test_class_numbers(y, expected, names):
    numbers, class_names = class_numbers(y)
    assert (numbers.dtype, numbers.tolist(), class_names) == (torch.int64, expected, names)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y: no labels; give one class per node (−1 for none)"),
        ([[1], [1, 2]], "y: lists of different lengths; give one class per node"),
        (np.eye(3), "y: labels have shape (3, 3); give one class per node; for one-hot rows, that is y.argmax(1)"),
        ([0.5, 1], "y: labels are not whole numbers; give classes 0, 1, ... (−1 for none)"),
    ],
)
def test_errors_of_class_numbers(y, message):
    with pytest.raises(InputError) as error:
        class_numbers(y)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (scipy.sparse.eye_array(2), "l: labels are a sparse matrix; give one label per node, as an array or list"),
        ({0: 1}, "l: labels are a dict; give an array, a list or a pandas Series"),
        ([[1], [1, 2]], "l: labels have rows of different lengths; make them equal"),
    ],
)
def test_errors_of_label_arrays(labels, message):
    with pytest.raises(InputError) as error:
        label_array(labels, "l")
    assert str(error.value) == message


def test_checked_labels():
    assert check_labels(torch.tensor([[1.0], [torch.nan]]), "g").tolist() == [1, -1]


def test_unsigned_and_complex_labels():
    for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
        assert check_labels(torch.tensor([1, 0, 2]).to(dtype), "g").tolist() == [1, 0, 2]
    with pytest.raises(InputError, match=r"^g: labels are complex numbers; give class numbers"):
        check_labels(torch.tensor([1j]), "g")


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["01", "1"], ["01", "1"]),
        (["10", "1e1"], ["10", "1e1"]),
        (["+5", "6"], ["+5", "6"]),
        (["5", "6"], ["5", "6"]),
        (["0", "1.0"], None),
    ],
)
def test_text_is_an_integer_only_if_it_is_written_as_one(labels, names):
    y, found = encode_labels(labels, "l")
    assert found == names
    assert y.tolist() == [0, 1]
