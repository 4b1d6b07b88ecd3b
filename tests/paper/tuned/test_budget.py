import pytest

import epagcl
from epagcl.methods import method
from epagcl.methods.recipes import recipe
from epagcl.paper.operators.artefact import GRAPHS
from epagcl.paper.tuned.budget import METHODS, budget, space_around, start_of, starts_at_recipe
from epagcl.study.tuning.space import space_of


@pytest.mark.parametrize("name", METHODS)
def test_every_search_space_contains_the_recipe(name):
    cls, fixed = method(name), budget(name)
    starts = {repr(start): start for start in (start_of(graph, cls) for graph in GRAPHS)}
    for start in starts.values():
        space = space_of(cls, space_around(start), cls(**start, **fixed), fixed)
        settings = {**cls().settings(), **start}
        assert all(values.nearest(settings[key]) == settings[key] for key, values in space.items()), start


def test_the_start_is_the_recipe_without_the_budget():
    start = start_of("Cornell", method("greet"))
    assert start["feature_scaling"] == "row-max"
    assert {"source", "epochs", "dim", "patience"}.isdisjoint(start)
    assert {**start, "source": "paper", "epochs": 400} == recipe("Cornell", "greet")


def test_a_search_starts_at_the_recipe_if_its_first_trial_has_its_settings():
    defaults = epagcl.method("dgi")().settings()
    first = {"lr": defaults["lr"], "weight_decay": defaults["weight_decay"], "feature_scaling": "row-sum"}
    search = {"trials": [{"settings": first}, {"settings": {"lr": 0.5}}]}
    assert starts_at_recipe(search, "Cora", "DGI")
    assert not starts_at_recipe(search, "demo", "DGI")  # which has no recipe, and the default "given"
    renamed = {"trials": [{"settings": {"features": "row-sum"}}]}  # the former name
    assert starts_at_recipe(renamed, "Cora", "DGI")
