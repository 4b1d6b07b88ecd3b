import pytest
import torch

import epagcl
from epagcl import EPAGCL
from epagcl.core.errors import InputError
from epagcl.methods.columns import column_names, match_columns

SMALL = {"hidden": 16, "dim": 8, "projection": 8, "epochs": 2, "device": "cpu"}


@pytest.mark.parametrize("dense", [True, False])
def test_named_columns_are_matched_in_any_order(named, dense, tmp_path):
    named.x = named.x.to_dense() if dense else named.x
    model = EPAGCL(**SMALL).fit(named)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    other = named.clone()
    x = torch.cat([named.x.to_dense()[:, order], torch.ones(60, 1)], dim=1)  # with an additional column
    other.x = x if dense else x.to_sparse_csr()
    other.feature_names = [*(named.feature_names[k] for k in order), "extra"]
    assert model.embed(other).equal(model.embed(named))
    assert [finding.value for finding in model.health(other)] == [finding.value for finding in model.health(named)]
    model.save(tmp_path / "model")
    assert epagcl.load_model(tmp_path / "model", device="cpu").embed(other).equal(model.embed(named))


def test_columns_that_the_model_does_not_know_are_named(named, caplog):
    other = named.clone()
    other.x = torch.cat([named.x.to_dense(), torch.ones(60, 1)], dim=1)
    other.feature_names = [*named.feature_names, "an extra one"]
    for _ in range(2):  # said once
        assert match_columns(other, named.feature_names, 12).x.equal(named.x.to_dense())
    assert caplog.messages == ["not used, since the model was trained without: an extra one"]


def test_missing_columns_are_an_error_and_repeated_names_are_ignored(named):
    model = EPAGCL(**SMALL).fit(named)
    other = named.clone()
    other.feature_names = ["new", *named.feature_names[1:]]
    with pytest.raises(InputError, match=r"no feature column 'word 0', .* \(1 of 12 are missing\)"):
        model.embed(other)
    other.feature_names = ["same"] * 12  # repeated names are ignored; columns are taken in order
    assert model.embed(other).equal(model.embed(named))
    assert EPAGCL(**SMALL).fit(other).feature_names_ is None
    other.feature_names = ["one"]
    with pytest.raises(InputError, match="1 feature_names for 12 columns; give one per column"):
        EPAGCL(**SMALL).fit(other)


def test_names_are_text_and_unique(named):
    named.feature_names = list(range(12))
    assert column_names(named) == [str(k) for k in range(12)]
    named.feature_names = ["same"] * 12
    assert column_names(named) is None
    del named.feature_names
    assert column_names(named) is None


def test_a_graph_with_the_columns_of_training_is_returned_unchanged(named):
    assert match_columns(named, named.feature_names, 12) is named
    assert match_columns(named, None, 12) is named
    with pytest.raises(InputError, match="the graph has 12 feature columns, the model was trained on 13"):
        match_columns(named, None, 13)
