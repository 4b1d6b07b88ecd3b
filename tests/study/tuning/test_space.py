import pytest

import epagcl
from epagcl.core.errors import InputError
from epagcl.methods import method_settings, setting
from epagcl.study.tuning.space import Choice, Range, default_space, space_of, space_words


def test_the_default_space_of_epagcl():
    assert space_words(default_space(epagcl.EPAGCL)) == {
        "p_drop_1": "0:0.8",
        "p_drop_2": "0:0.8",
        "p_mask_1": "0:0.8",
        "p_mask_2": "0:0.8",
        "temperature": "0.1:1:log",
        "p_add": "0:0.3",
        "lr": "0.0001:0.01:log",
        "weight_decay": "0,1e-06,1e-05,0.0001,0.0005,0.001",
    }


def test_the_default_space_of_epagcl_plus_has_its_own_settings_and_holds_its_defaults():
    space = default_space(epagcl.EPAGCLPlus)
    own = ("members", "k", "batch_size", "hidden", "projection")
    assert space_words({name: space[name] for name in own}) == {
        "members": "1:4",
        "k": "5:30:log",
        "batch_size": "128,256,512,1024",
        "hidden": "128,256,512",
        "projection": "64,128,256",
    }
    assert {"p_drop_1", "p_drop_2", "p_add", "p_mask_1", "p_mask_2", "temperature", "lr"} <= set(space)
    assert "dim" not in space
    defaults = epagcl.EPAGCLPlus().get_params()
    assert all(values.nearest(defaults[name]) == defaults[name] for name, values in space.items())


@pytest.mark.parametrize("name", epagcl.methods())
def test_every_method_accepts_the_ends_of_its_default_space(name):
    cls = epagcl.method(name)
    space = space_of(cls, None, cls())
    assert ("lr" in space) == cls.trained
    for setting_name, values in space.items():
        for end in values.ends:
            cls(**{setting_name: end})


def test_the_default_space_is_widened_to_contain_the_start():
    start = epagcl.method("greet")(k=25, lr=0.1, weight_decay=0.5, temperature=0.05, p_drop_1=0.9)
    space = space_words(space_of(type(start), None, start))
    assert space["k"] == "0,10,20,30,25"
    assert space["lr"] == "0.0001:0.1:log"
    assert space["weight_decay"].endswith(",0.001,0.5")
    assert (space["temperature"], space["p_drop_1"]) == ("0.05:1:log", "0:0.9")
    own = space_of(type(start), ["default", "k=0,10"], start)
    assert own["k"] == Choice((0, 10))  # a user's own choice stays
    assert Range(0.1, 1.0, log=True).including(0.0) == Range(0.1, 1.0, log=True)


def test_a_users_method_gets_a_space_from_its_settings():
    @method_settings
    class Mine(epagcl.DGI):
        name = "mine"
        p_noise: float = setting(0.1, "")
        p_kind: str = setting("a", "", ("a", "b"))
        temperature: float = setting(0.3, "")

    assert list(default_space(Mine)) == ["p_noise", "temperature", "lr", "weight_decay"]


def test_words_lists_and_tuples_give_the_same_space():
    cls, start = epagcl.EPAGCL, epagcl.EPAGCL()
    words = ["lr=1e-4:1e-2:log", "p_drop=0.1:0.6", "dim=128,256", "batch_size=16:64:log", "activation=relu,prelu"]
    python = {
        "lr": (1e-4, 1e-2, "log"),
        "p_drop": (0.1, 0.6),
        "dim": [128, 256],
        "batch_size": (16, 64, "log"),
        "activation": ["relu", "prelu"],
    }
    expected = {
        "lr": Range(1e-4, 1e-2, True),
        "p_drop_1": Range(0.1, 0.6),
        "p_drop_2": Range(0.1, 0.6),
        "dim": Choice((128, 256)),
        "batch_size": Range(16, 64, True),
        "activation": Choice(("relu", "prelu")),
    }
    assert space_of(cls, words, start) == space_of(cls, python, start) == space_of(cls, expected, start) == expected
    pytest.importorskip("optuna")
    assert isinstance(expected["batch_size"].distribution().high, int)


def test_default_is_a_word_without_fixed_settings():
    space = space_of(epagcl.EPAGCL, ["default", "dim=16,32"], epagcl.EPAGCL(), fixed=["lr", "epochs"])
    assert set(space) == {*default_space(epagcl.EPAGCL), "dim"} - {"lr"}
    assert list(space_of(epagcl.EPAGCL, ["lr=0.1:0.2"], epagcl.EPAGCL())) == ["lr"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["foo=1:2"], "epagcl has no setting 'foo'"),
        (["lr"], "space lr: write name=low:high"),
        (["dim=1.5:3"], "dim=1.5:3: '1.5' is not of type int"),
        (["dim=128"], "a choice needs two values or more"),
        (["seed=1,2"], "seed cannot be searched"),
        (["epochs=1,2"], "epochs has a fixed value too"),
        (["activation=a,b"], "choose from prelu, relu"),
        (["activation=a:b"], "for type str, write a list"),
        (["lr=1:0.1"], "the first end must be the lower"),
        (["lr=0:1:log"], "a logarithmic range begins above 0"),
        (["lr=1:2:3"], "write low:high or low:high:log"),
        (["lr=nan:1"], "'nan' is not of type float"),
        (["p_drop_1=0.1:1.2"], "p_drop_1=1.2: a probability lies between 0 and 1"),
        ({"dim": [1.5, 3]}, "1.5 is not of type int"),
        ({}, "nothing to search"),
    ],
)
def test_an_impossible_space_is_refused(words, message):
    with pytest.raises(InputError, match="space") as error:
        space_of(epagcl.EPAGCL, words, epagcl.EPAGCL(), fixed=["epochs"])
    assert message in str(error.value)


def test_a_value_that_needs_another_setting_is_accepted():
    @method_settings
    class Heads(epagcl.DGI):
        name = "heads"
        heads: int = setting(8, "")

        def validate(self):
            super().validate()
            if self.dim % self.heads:
                raise InputError("dim must be a multiple of heads")

    space = {"dim": [64, 100], "heads": [4, 8]}
    assert list(space_of(Heads, space, Heads(dim=64))) == ["dim", "heads"]
    with pytest.raises(InputError, match="dim=64,99: dim must be a multiple"):
        space_of(Heads, {"dim": [64, 99], "heads": [4, 8]}, Heads(dim=64))


def test_rounded_values_stay_in_the_range():
    assert Range(0.0, 1.0).rounded(0.123456) == 0.1235
    assert Range(0.123446, 1.0).rounded(0.123446) == 0.123446  # 0.1234 lies outside
    assert Range(0.0, 0.99999).rounded(0.99999) == 0.99999
    assert Range(0.0, 1.0).nearest(7) == 1.0
    assert Range(1, 5).nearest(0) == 1
    assert Choice((1, 2)).nearest(3) is None
