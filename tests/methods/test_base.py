"""The estimator: unusual graphs and labels, errors, and names of earlier versions."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import epagcl
from epagcl import EPAGCL
from epagcl.core.errors import InputError

SMALL = {"hidden": 16, "dim": 8, "projection": 8, "epochs": 2, "device": "cpu"}


@pytest.mark.parametrize(
    "y", [torch.randint(0, 2, (60, 5)), torch.rand(60), torch.tensor([1]), ["a"] * 60, torch.full((60,), -7)]
)
def test_labels_of_any_form_are_ignored(named, y):
    plain = named.clone()
    plain.y = None
    named.y = y
    model = EPAGCL(**SMALL).fit(named)
    assert model.embed(named).equal(EPAGCL(**SMALL).fit_embed(plain))
    assert len(model.health(named)) == 3


def test_repairs_of_a_graph_are_logged_once(named, caplog):
    looped = named.clone()
    looped.edge_index = torch.cat([named.edge_index, torch.zeros(2, 1, dtype=torch.long)], dim=1)
    model = EPAGCL(**SMALL)
    model.fit_transform(looped)
    assert caplog.messages == ["graph: 1 self-loop removed"]
    caplog.clear()
    assert model.get_feature_names_out().tolist() == [f"epagcl{k}" for k in range(8)]
    assert caplog.messages == []  # nothing about its internal graph


def test_an_untrained_model_raises_errors_of_both_libraries(named):
    for error in (InputError, NotFittedError):
        with pytest.raises(error, match="this EPAGCL is not trained"):
            EPAGCL().transform(named)


def test_arrays_in_place_of_tensors_are_rejected(named):
    other = named.clone()
    other.x = np.ones((60, 12))
    with pytest.raises(InputError, match=r"features are a ndarray; give a tensor \(torch.as_tensor\)"):
        EPAGCL(**SMALL).fit(other)
    other = named.clone()
    other.edge_index = [[0], [1]]
    with pytest.raises(InputError, match="edge_index is a list; give a tensor"):
        EPAGCL(**SMALL).fit(other)
    named.x = torch.ones(60, 12, dtype=torch.complex64)
    with pytest.raises(InputError, match="features are complex numbers"):
        EPAGCL(**SMALL).fit(named)


# Class attributes were renamed after version 0.1.


def test_old_class_attributes_of_subclasses_are_accepted_with_a_warning(small_graph):
    with pytest.warns(DeprecationWarning, match=r"Old\.\w+ is now ") as warned:

        class Old(epagcl.SupervisedGCN):
            name = "old-names"
            validates = False
            fitted = ("num_features_", "classes_", "extra_")
            needs = "labels; time and memory"

    assert sorted(str(warning.message) for warning in warned) == [
        "Old.fitted is now saved_attributes",
        "Old.needs is now cost_note",
        "Old.validates is now has_validation_loss",
    ]
    assert {warning.filename for warning in warned} == {__file__}
    assert Old.has_validation_loss is False
    assert Old.saved_attributes == ("num_features_", "classes_", "extra_")
    assert Old.cost_note == "labels; time and memory"
    model = Old(epochs=2, hidden=4, device="cpu").fit(small_graph)
    assert "validation_loss" not in model.history_[0]


def test_old_class_attributes_save_and_load(tmp_path, small_graph):
    with pytest.warns(DeprecationWarning, match="Extra.fitted is now saved_attributes"):

        class Extra(epagcl.DGI):
            name = "extra"
            fitted = ("num_features_", "extra_")

    model = Extra(epochs=1, dim=4, device="cpu").fit(small_graph)
    model.extra_ = 7
    model.save(tmp_path)
    assert epagcl.load_model(tmp_path, device="cpu").extra_ == 7


def test_a_look_may_be_a_plain_pair(small_graph):
    epochs = []
    EPAGCL(**{**SMALL, "epochs": 4}).fit(small_graph, look=(2, lambda epoch, z: epochs.append(epoch)))
    assert epochs == [2, 4]
