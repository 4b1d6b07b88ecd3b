import pytest

from epagcl.methods import method
from epagcl.methods.recipes import recipe
from epagcl.paper.sensitivity.artefact import GRAPHS
from epagcl.paper.sensitivity.settings import (
    DEFAULT,
    EPOCHS,
    MASKS,
    METHODS,
    MOST,
    P_ADD,
    P_DROP,
    SETTINGS,
    TEMPERATURE,
    WIDTH,
    read_title,
    sweep_rows,
)


def settings_of(name, **settings):
    return method(name)(**settings).settings()


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=["tau", "p_drop", "p_add", "masks", "epochs", "width"])
@pytest.mark.parametrize("name", METHODS)
def test_every_sweep_has_five_values_and_the_default_among_them(name, setting):
    own = settings_of(name)
    default = setting.value(own)
    values = setting.values(default)
    assert len(values) == 5
    assert default in values
    assert values == sorted(values)
    for value in values:
        model = method(name)(**setting.changed(own, value))
        assert setting.value(model.settings()) == pytest.approx(value)


def test_the_rates_of_views_keep_their_ratio():
    plus = settings_of("epagcl+")
    assert MASKS.value(plus) == pytest.approx((0.3 + 0.4 + 2 * 0.6) / 4)  # p_mask applies to two views
    changed = MASKS.changed(plus, 0.7)
    factor = 0.7 / 0.475
    assert changed == pytest.approx({"p_mask_1": 0.3 * factor, "p_mask_2": 0.4 * factor, "p_mask": 0.6 * factor}, 1e-5)
    assert P_DROP.changed(settings_of("epagcl"), 0.5) == pytest.approx({"p_drop_1": 0.4, "p_drop_2": 0.6})
    assert P_DROP.changed(settings_of("epagcl"), 0.0) == {"p_drop_1": 0.0, "p_drop_2": 0.0}
    undropped = settings_of("epagcl", p_drop_1=0.0, p_drop_2=0.0)
    assert P_DROP.changed(undropped, 0.5) == {"p_drop_1": 0.5, "p_drop_2": 0.5}
    one_view = settings_of("epagcl", p_drop_1=0.0, p_drop_2=0.2)
    assert P_DROP.changed(one_view, 0.7) == {"p_drop_1": 0.0, "p_drop_2": MOST}


def test_the_default_takes_the_place_of_the_nearest_value():
    assert P_DROP.values(0.25) == [0.0, 0.1, 0.25, 0.5, 0.7]
    assert TEMPERATURE.values(0.74) == [0.1, 0.2, 0.3, 0.5, 0.74]  # nearest on a logarithmic scale
    assert P_ADD.values(0.0) == [0.0, 0.05, 0.1, 0.2, 0.4]
    assert EPOCHS.values(500) == [50, 125, 250, 500, 1000]
    assert WIDTH.values(256) == [32, 64, 128, 256, 512]
    assert EPOCHS.values(2) == [1, 2, 4]  # at least one epoch


def test_a_setting_that_a_method_does_not_have_is_not_swept():
    titles = [row.title for row in sweep_rows("Cora", ["grace"], {})]
    assert not [title for title in titles if "p_add" in title]
    assert {read_title(title)[1] for title in titles} == {*SETTINGS, DEFAULT} - {"p_add"}


@pytest.mark.parametrize("graph", GRAPHS)
def test_rows_differ_from_the_default_in_one_setting(graph):
    rows = sweep_rows(graph, METHODS, {})
    assert len(rows) == len({row.title for row in rows}) == 2 * (1 + 6 * 4)
    models = {row.title: row.models(graph, 1, {})[0][0].settings() for row in rows}
    for row in rows:
        title, label, value = read_title(row.title)
        base = models[f"{title}, {DEFAULT}"]
        own = models[row.title]
        changed = {name for name in own if own[name] != base[name]}
        if value is None:
            assert not changed
            published = recipe(graph, row.method)
            assert all(own[name] == one for name, one in published.items() if name != "source")
        else:
            assert changed
            assert changed <= set(SETTINGS[label].names)
            assert SETTINGS[label].value(own) == pytest.approx(value)


def test_settings_of_the_request_are_the_defaults():
    titles = [row.title for row in sweep_rows("Cora", ["epagcl"], {"epochs": 40, "dim": 16})]
    assert "EPAGCL, epochs = 80" in titles
    assert "EPAGCL, width = 2" in titles
