"""What all methods share, where a user's graph, columns or class is unusual."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import epagcl
from epagcl import EPAGCL
from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.methods import Method, method_settings, setting

SMALL = {"hidden": 16, "dim": 8, "projection": 8, "epochs": 2, "device": "cpu"}


@pytest.fixture
def named():
    """A graph whose feature columns have names."""
    data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
    data.feature_names = [f"word {k}" for k in range(12)]
    return data


@pytest.mark.parametrize("dense", [True, False])
def test_named_columns_are_matched_whatever_their_order(named, dense, tmp_path):
    named.x = named.x.to_dense() if dense else named.x
    model = EPAGCL(**SMALL).fit(named)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    other = named.clone()
    x = torch.cat([named.x.to_dense()[:, order], torch.ones(60, 1)], dim=1)  # and one column more
    other.x = x if dense else x.to_sparse_csr()
    other.feature_names = [*(named.feature_names[k] for k in order), "extra"]
    assert model.embed(other).equal(model.embed(named))
    assert [finding.value for finding in model.health(other)] == [finding.value for finding in model.health(named)]
    model.save(tmp_path / "model")
    assert epagcl.load_model(tmp_path / "model", device="cpu").embed(other).equal(model.embed(named))


def test_columns_that_are_missing_or_have_no_names_of_their_own(named):
    model = EPAGCL(**SMALL).fit(named)
    other = named.clone()
    other.feature_names = ["new", *named.feature_names[1:]]
    with pytest.raises(InputError, match=r"no feature column 'word 0', .* \(1 of 12 are missing\)"):
        model.embed(other)
    other.feature_names = ["same"] * 12  # names that tell nothing: by order
    assert model.embed(other).equal(model.embed(named))
    assert EPAGCL(**SMALL).fit(other).feature_names_ is None
    other.feature_names = ["one"]
    with pytest.raises(InputError, match="1 feature_names for 12 columns; give one per column"):
        EPAGCL(**SMALL).fit(other)


@pytest.mark.parametrize(
    "y", [torch.randint(0, 2, (60, 5)), torch.rand(60), torch.tensor([1]), ["a"] * 60, torch.full((60,), -7)]
)
def test_labels_of_any_kind_are_left_alone(named, y):
    plain = named.clone()
    plain.y = None
    named.y = y
    model = EPAGCL(**SMALL).fit(named)
    assert model.embed(named).equal(EPAGCL(**SMALL).fit_embed(plain))
    assert len(model.health(named)) == 3


def test_what_is_said_of_a_graph_is_said_once(named, caplog):
    looped = named.clone()
    looped.edge_index = torch.cat([named.edge_index, torch.zeros(2, 1, dtype=torch.long)], dim=1)
    model = EPAGCL(**SMALL)
    model.fit_transform(looped)
    assert caplog.messages == ["graph: 1 self-loop removed"]
    caplog.clear()
    assert model.get_feature_names_out().tolist() == [f"epagcl{k}" for k in range(8)]
    assert caplog.messages == []  # the graph it asks with is nobody's


def test_an_untrained_model_raises_what_both_worlds_look_for(named):
    for error in (InputError, NotFittedError):
        with pytest.raises(error, match="this EPAGCL is not trained"):
            EPAGCL().transform(named)


def test_a_file_is_no_folder_for_a_model(named, tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(InputError, match="model: is a file; give the name of a folder"):
        EPAGCL(**SMALL).fit(named).save(tmp_path / "model")


def test_arrays_in_place_of_tensors_are_named(named):
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


# ---- Methods of users


def test_annotations_may_be_words():
    """As `from __future__ import annotations` makes them."""

    class Wordy(epagcl.DGI):
        name = "Wordy"
        __annotations__ = {"width": "int"}
        width = setting(3, "a width")

    made = method_settings(Wordy)
    assert made(width=np.int64(4)).width == 4
    with pytest.raises(InputError, match="width='x': must be a whole number"):
        made(width="x")
    assert epagcl.method("Wordy") is made  # by name in any case


def test_settings_of_other_types_are_refused():
    class Odd(epagcl.DGI):
        name = "odd"
        p: float | None = setting(None, "a number or none")

    with pytest.raises(InputError, match=r"Odd\.p: a setting is an int, float, bool or str, no float \| None"):
        method_settings(Odd)


def test_a_forgotten_decorator_is_named():
    class Bare(epagcl.DGI):
        name = "bare"
        p: float = setting(0.5, "a number")

    with pytest.raises(InputError, match="Bare: p is no setting yet; put @method_settings above the class"):
        Bare()
    assert issubclass(Bare, Method)
