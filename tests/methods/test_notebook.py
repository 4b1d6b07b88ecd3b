import pytest
import sklearn

import epagcl
from epagcl.data import block_model
from epagcl.methods.notebook import method_html

SMALL = {"hidden": 8, "dim": 4, "projection": 4, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    return block_model(40, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=1)


def test_settings_that_differ_state_and_loss(data):
    model = epagcl.EPAGCL(epochs=3, **SMALL)
    page = method_html(model)
    assert "not trained; call fit(data)" in page
    assert "<svg" not in page
    model.fit(data)
    page = model._repr_html_()
    assert "trained for 3 epochs in" in page
    assert "on 12 feature columns" in page
    assert f"from {model.history_[0]['loss']:.4g} to {model.history_[-1]['loss']:.4g} in 3 steps" in page
    assert '<th scope="row">epochs</th><td>3</td><td>200</td>' in page
    assert '<th scope="row">lr</th>' not in page


def test_defaults_methods_without_training_and_loaded_models(data, tmp_path):
    assert "All settings have their defaults." in method_html(epagcl.DGI())
    assert "the method has no training" in method_html(epagcl.Propagated(dim=4, device="cpu").fit(data))
    epagcl.EPAGCL(epochs=1, **SMALL).fit(data).save(tmp_path)
    assert "loaded, or not trained" in method_html(epagcl.load_model(tmp_path, device="cpu"))


def test_text_is_escaped():
    model = epagcl.EPAGCL()
    model.drop = "<b>"  # as set_params allows before fit
    assert "&lt;b&gt;" in method_html(model)


def test_notebooks_get_both_forms_as_scikit_learn_is_set():
    model = epagcl.EPAGCL(epochs=3)
    assert set(model._repr_mimebundle_()) == {"text/plain", "text/html"}
    with sklearn.config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}
    assert model._repr_mimebundle_()["text/plain"] == "EPAGCL(epochs=3)"


def test_the_report_is_that_of_the_model(data):
    model = epagcl.EPAGCL(epochs=2, **SMALL).fit(data)
    report = model.report(data, evaluate=False, map="none", height=500)
    assert report.title == "EPAGCL on graph"
    assert 'height="500"' in report._repr_html_()
