import pytest

from epagcl.data.catalogue import CATALOGUE
from epagcl.methods import method, names
from epagcl.paper import reported
from epagcl.recipes import recipe

APPENDIX_D = reported()["hyperparameters"]
KEYS = ["lr", "weight_decay", "p_drop_1", "p_drop_2", "p_mask_1", "p_mask_2", "temperature", "epochs"]


@pytest.mark.parametrize("graph", APPENDIX_D)
def test_published_settings_are_those_of_the_paper(graph):
    settings = recipe(graph, "epagcl")
    assert [settings[key] for key in KEYS] == APPENDIX_D[graph]
    assert settings["source"] == "paper"


@pytest.mark.parametrize("graph", [entry.name for entry in CATALOGUE.values()])
@pytest.mark.parametrize("name", names())
def test_every_recipe_makes_a_method_and_says_where_it_is_from(graph, name):
    settings = recipe(graph, name)
    assert settings.pop("source") == ("paper" if graph in APPENDIX_D else "ours")
    method(name)(**settings)


def test_no_recipe_is_empty():
    assert recipe("my-graph", "epagcl") == {}
