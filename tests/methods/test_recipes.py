import tomllib
from importlib import resources

import pytest

from epagcl.data.catalogue.entries import CATALOGUE
from epagcl.methods import method, names
from epagcl.methods.recipes import recipe
from epagcl.paper import reported
from epagcl.study.design import STARRED

APPENDIX_D = reported()["hyperparameters"]
KEYS = ["lr", "weight_decay", "p_drop_1", "p_drop_2", "p_mask_1", "p_mask_2", "temperature", "epochs"]

#: Graphs with published settings of each method; all other cells are our own.
PUBLISHED = {
    "epagcl": set(APPENDIX_D),
    "grace": {"Cora", "CiteSeer", "PubMed"},
    "gca": {"WikiCS", "Amazon-Computers", "Amazon-Photo", "Coauthor-CS", "Coauthor-Physics"},
    "bgrl": {"Amazon-Computers", "Amazon-Photo", "Coauthor-CS", "Coauthor-Physics", "ogbn-arxiv"},
    "dgi": {"Cora", "CiteSeer", "PubMed"},
    "gmi": {"Cora", "CiteSeer", "PubMed"},
    "mvgrl": {"Cora", "CiteSeer", "PubMed"},
    "cca-ssg": {"Cora", "CiteSeer", "PubMed", "Amazon-Computers", "Amazon-Photo", "Coauthor-Physics"},
}
#: Methods with one setting for all graphs, and graphs on which all methods have their defaults: no recipes.
ONE_SETTING, WITHOUT_RECIPES = {"epagcl+", "propagated"}, {"Flickr", "Facebook"}
LARGER = {"WikiCS", "Amazon-Computers", "Amazon-Photo", "Coauthor-CS", "Coauthor-Physics"}
PUBLISHED["gcn"] = PUBLISHED["gat"] = {"Cora", "CiteSeer", "PubMed"} | LARGER
PUBLISHED["greet"] = PUBLISHED["gcn"] | {"Cornell", "Texas", "Wisconsin", "Chameleon", "Squirrel", "Actor"}


@pytest.mark.parametrize("graph", APPENDIX_D)
def test_published_settings_are_those_of_the_paper(graph):
    settings = recipe(graph, "epagcl")
    assert [settings[key] for key in KEYS] == APPENDIX_D[graph]
    assert settings["source"] == "paper"


WITH_RECIPES = [entry.name for entry in CATALOGUE.values() if entry.name not in WITHOUT_RECIPES]


def test_methods_with_one_setting_and_graphs_without_recipes_have_none():
    for entry in CATALOGUE.values():
        assert all(recipe(entry.name, name) == {} for name in ONE_SETTING)
    assert all(recipe(graph, name) == {} for graph in WITHOUT_RECIPES for name in names())


@pytest.mark.parametrize("graph", WITH_RECIPES)
@pytest.mark.parametrize("name", [name for name in names() if name not in ONE_SETTING])
def test_every_recipe_is_valid_and_names_its_source(graph, name):
    settings = recipe(graph, name)
    assert settings.pop("source") == ("paper" if graph in PUBLISHED[name] else "ours")
    method(name)(**settings)


@pytest.mark.parametrize("graph", WITH_RECIPES)
def test_sections_are_names_of_methods_and_starred_ones_have_no_masks(graph):
    file = resources.files("epagcl.methods.recipes") / f"{graph.lower()}.toml"
    for section, settings in tomllib.loads(file.read_text(encoding="utf-8")).items():
        name = section.removesuffix("*")
        assert name in names()
        if section != name:
            assert name in STARRED
            assert settings["p_mask_1"] == settings["p_mask_2"] == 0
            assert settings.pop("source") == "ours"
            method(name)(**settings)


@pytest.mark.parametrize(
    ("graph", "name", "settings"),
    [
        (
            "Cora",
            "grace",
            {"lr": 5e-4, "dim": 128, "hidden": 256, "activation": "relu", "p_drop_2": 0.4},
        ),
        ("CiteSeer", "grace", {"temperature": 0.9, "p_drop_2": 0.0, "activation": "prelu"}),
        ("Amazon-Photo", "gca", {"lr": 0.1, "projection": 64, "feature_scaling": "row-sum"}),
        ("Coauthor-Physics", "gca", {"activation": "rrelu", "temperature": 0.5, "p_mask_2": 0.4}),
        ("Amazon-Photo", "bgrl", {"lr": 1e-4, "hidden": 256, "dim": 128, "p_drop_1": 0.4, "epochs": 10_000}),
        ("PubMed", "dgi", {"dim": 256}),
        ("Cora", "gmi", {"layers": 2}),
        ("Cora", "greet", {"k": 20, "p_mask_1": 0.8, "p_drop_1": 0.8, "alpha": 0.5, "rounds": 2}),
        ("Coauthor-Physics", "greet", {"k": 25, "batch_size": 2000, "alpha": 0.1}),
        ("Squirrel", "greet", {"k": 0, "epochs": 1000, "p_drop_2": 0.8, "margin_hom": 0.1, "margin_het": 0.3}),
        ("CiteSeer", "cca-ssg", {"layers": 1, "epochs": 20, "decorrelation": 5e-4, "p_mask": 0.0}),
        ("PubMed", "gat", {"out_heads": 8, "lr": 0.01, "weight_decay": 1e-3}),
    ],
)
def test_published_settings_of_the_baselines(graph, name, settings):
    assert recipe(graph, name).items() >= settings.items()


def test_an_unknown_graph_has_an_empty_recipe():
    assert recipe("my-graph", "epagcl") == {}


def test_a_changed_recipe_is_a_copy():
    recipe("cora", "grace")["lr"] = 99.0
    assert recipe("cora", "grace")["lr"] != 99.0
