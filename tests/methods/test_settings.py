import inspect
import warnings

import numpy as np
import pytest
import torch

import epagcl
from epagcl import EPAGCL
from epagcl.core.errors import InputError
from epagcl.methods import Method, method_settings, setting

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p_drop_1": 1.5}, "p_drop_1=1.5: a probability lies between 0 and 1"),
        ({"temperature": 0.01}, "temperature=0.01: must be at least 0.03"),
        ({"epochs": -1}, "epochs=-1"),
        ({"epochs": 2.5}, "epochs=2.5: must be a whole number"),
        ({"drop": "best"}, "drop='best': choose one of eq9, text, uniform"),
        ({"device": "tpu"}, "device='tpu': choose one of auto, cpu, cuda, mps"),
        ({"dim": 0}, "must be at least 1"),
        ({"lr": 0.0}, "lr=0.0: must be positive"),
    ],
)
def test_invalid_settings_are_rejected_at_construction(settings, message):
    with pytest.raises(InputError, match=message):
        EPAGCL(**settings)


def test_fit_validates_changed_settings(small_graph):
    model = EPAGCL(**SMALL)
    with pytest.raises(InputError, match="epochs=-3"):
        model.set_params(epochs=-3).fit(small_graph)


def test_numpy_numbers_become_plain_numbers():
    model = EPAGCL(seed=np.int64(3), lr=np.float32(0.5))
    assert (type(model.seed), type(model.lr)) == (int, float)


def test_annotations_may_be_strings():
    """As with `from __future__ import annotations`."""

    class Strings(epagcl.DGI):
        name = "Strings"
        __annotations__ = {"width": "int"}
        width = setting(3, "a width")

    cls = method_settings(Strings)
    assert cls(width=np.int64(4)).width == 4
    with pytest.raises(InputError, match="width='x': must be a whole number"):
        cls(width="x")
    assert epagcl.method("Strings") is cls


def test_settings_of_other_types_are_rejected():
    class Odd(epagcl.DGI):
        name = "odd"
        p: float | None = setting(None, "a number or none")

    with pytest.raises(InputError, match=r"Odd\.p: a setting is an int, float, bool or str, not float \| None"):
        method_settings(Odd)


def test_the_error_names_a_missing_decorator():
    class Bare(epagcl.DGI):
        name = "bare"
        p: float = setting(0.5, "a number")

    with pytest.raises(InputError, match="Bare: p is not a setting yet; decorate the class with @method_settings"):
        Bare()
    assert issubclass(Bare, Method)


def test_the_signature_lists_the_settings():
    parameters = inspect.signature(EPAGCL).parameters
    assert sorted(parameters) == sorted(EPAGCL().get_params())
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    assert "features" not in parameters
    with pytest.raises(TypeError, match=r"EPAGCL.__init__\(\) takes 1 positional argument"):
        EPAGCL(200)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epoch'"):
        EPAGCL(epoch=3)


# The setting `feature_scaling` was `features` in version 0.1.


def test_the_old_name_of_a_setting_is_accepted_with_a_warning(small_graph):
    with pytest.warns(DeprecationWarning, match="the setting features is now feature_scaling") as warned:
        model = EPAGCL(features="row-sum", epochs=2, **SMALL)
    assert warned[0].filename == __file__
    assert model.feature_scaling == "row-sum"
    assert "features" not in model.get_params()
    expected = EPAGCL(feature_scaling="row-sum", epochs=2, **SMALL).fit_embed(small_graph)
    assert torch.equal(model.fit_embed(small_graph), expected)


def test_the_old_name_of_a_setting_is_validated():
    with (
        pytest.warns(DeprecationWarning, match="features"),
        pytest.raises(InputError, match="feature_scaling='best': choose one of given, row-sum, row-max"),
    ):
        EPAGCL(features="best")


def test_set_params_accepts_the_old_name_with_a_warning():
    with pytest.warns(DeprecationWarning, match="the setting features is now feature_scaling") as warned:
        model = EPAGCL().set_params(features="row-max", lr=0.1)
    assert warned[0].filename == __file__
    assert (model.feature_scaling, model.lr) == ("row-max", 0.1)


def test_the_old_and_the_new_name_together_are_rejected():
    for call in (EPAGCL, EPAGCL().set_params):
        with pytest.raises(InputError, match="features and feature_scaling are the same setting"):
            call(features="row-sum", feature_scaling="row-max")


def test_a_subclass_may_declare_a_setting_under_its_old_name():
    with pytest.warns(DeprecationWarning, match="Scaled: the setting features is now feature_scaling") as warned:

        @method_settings
        class Scaled(epagcl.DGI):
            features: str = setting("row-sum", "how rows are scaled", ("given", "row-sum", "row-max"))

    assert warned[0].filename == __file__
    assert Scaled().feature_scaling == "row-sum"
    assert epagcl.DGI().feature_scaling == "given"


def test_current_names_do_not_warn():
    with warnings.catch_warnings(action="error"):
        EPAGCL(feature_scaling="row-sum").set_params(feature_scaling="row-max")


# The value "eq9" of the settings `drop` and `add` was "eq7" in version 0.1.


@pytest.mark.parametrize("name", ["drop", "add"])
def test_the_old_value_of_a_setting_is_accepted_with_a_warning(name):
    for call in (EPAGCL, EPAGCL().set_params):
        with pytest.warns(DeprecationWarning, match=f"^{name}='eq7' is now {name}='eq9'$") as warned:
            model = call(**{name: "eq7"})
        assert [warning.filename for warning in warned] == [__file__]
        assert model.get_params() == EPAGCL().get_params()


def test_an_old_value_that_is_assigned_becomes_the_current_one():
    model = EPAGCL()
    model.drop = "eq7"
    model.validate()
    assert model.drop == "eq9"


def test_a_subclass_may_keep_the_old_value_as_its_default():
    @method_settings
    class Former(EPAGCL):
        drop: str = setting("eq7", "which edges are dropped", ("eq9", "text"))

    assert Former().drop == "eq9"
