import json

from epagcl.methods.epagcl import EPAGCL
from epagcl.study.tuning import Tuning


def test_the_estimator_has_the_best_settings_unless_others_are_given():
    result = Tuning(EPAGCL, {"lr": 0.02, "epochs": 7}, [], {}, None, {"seeds": 1})
    model = result.estimator(epochs=3)
    assert (type(model), model.lr, model.epochs) == (EPAGCL, 0.02, 3)


def test_the_result_is_plain_json():
    result = Tuning(EPAGCL, {"lr": 0.02}, [], {"lr": 1.0}, None, {"seeds": 1})
    expected = {
        "best": {"name": "epagcl", "lr": 0.02},
        "scores": None,
        "importance": {"lr": 1.0},
        "search": {"seeds": 1},
    }
    assert json.loads(json.dumps(result.to_dict())) == expected
