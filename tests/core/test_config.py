import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epagcl.core.config import (
    RENAMED_SETTINGS,
    current_settings,
    current_value,
    read_config,
    warn_of_old_value,
    write_config,
)
from epagcl.core.errors import InputError


def test_round_trip(tmp_path):
    sections = {"method": {"name": 'épa "gcl"\\', "lr": 1e-05, "epochs": 3, "flag": True, "list": [1, 2]}, "data": {}}
    write_config(tmp_path / "c.toml", sections)
    assert read_config(tmp_path / "c.toml") == sections


def test_none_is_omitted(tmp_path):
    write_config(tmp_path / "c.toml", {"a": {"x": None, "y": 1}})
    assert read_config(tmp_path / "c.toml") == {"a": {"y": 1}}


def test_errors_are_one_line_and_name_the_file(tmp_path):
    with pytest.raises(InputError, match=r"c\.toml: no such file; check the path"):
        read_config(tmp_path / "c.toml")
    (tmp_path / "c.toml").write_text("a = = 1")
    with pytest.raises(InputError, match=r"c\.toml: not a TOML file \(.*line 1"):
        read_config(tmp_path / "c.toml")
    (tmp_path / "c.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(InputError, match=r"c\.toml: not a TOML file"):
        read_config(tmp_path / "c.toml")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)"):
        read_config(tmp_path)


def test_former_names_of_settings_become_current_ones():
    assert RENAMED_SETTINGS == {"features": "feature_scaling"}
    assert current_settings({"features": "standard", "lr": 0.1}) == {"feature_scaling": "standard", "lr": 0.1}


def test_current_names_of_settings_stay_and_the_input_is_not_changed():
    settings = {"feature_scaling": "none", "epochs": 3}
    renamed = current_settings(settings)
    assert renamed == settings
    assert renamed is not settings


def test_former_values_of_settings_become_current_ones():
    settings = {"drop": "eq7", "add": "eq7", "add_to": "second", "name": "eq7"}
    assert current_settings(settings) == {"drop": "eq9", "add": "eq9", "add_to": "second", "name": "eq7"}
    for value in ("eq9", "text", 7, None, ["eq7"]):
        assert current_value("drop", value) is value


def test_a_former_value_is_accepted_with_a_warning():
    def caller(value):
        return warn_of_old_value("add", value)

    with pytest.warns(DeprecationWarning, match="^add='eq7' is now add='eq9'$") as warned:
        assert caller("eq7") == "eq9"
    assert warned[0].filename == __file__
    assert caller("eq9") == "eq9"  # without a warning, which would be an error


VALUES = st.text() | st.floats() | st.integers(-(2**63), 2**63 - 1) | st.booleans()


@given(st.dictionaries(st.sampled_from("abc"), VALUES))
@settings(deadline=None)
def test_every_value_is_read_back(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "hypothesis.toml"
    write_config(path, {"s": {**values, "list": list(values.values())}})
    table = read_config(path)["s"]
    for name, value in values.items():
        assert table[name] == value or (value != value and table[name] != table[name])


@pytest.mark.parametrize("text", [*map(chr, range(32)), "\x7f", "\x85", "\u2028", '"\\', "𝔸"])
def test_control_characters_are_escaped(tmp_path, text):
    write_config(tmp_path / "c.toml", {"data": {"file": f"a{text}b", "names": [text]}})
    assert read_config(tmp_path / "c.toml") == {"data": {"file": f"a{text}b", "names": [text]}}


def test_halves_of_characters_become_escapes(tmp_path):
    write_config(tmp_path / "c.toml", {"data": {"file": "a\udc80"}})
    assert read_config(tmp_path / "c.toml") == {"data": {"file": "a\\udc80"}}


def test_entries_outside_of_tables_and_deep_nesting_are_refused(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("method = 3\n")
    with pytest.raises(InputError, match=r"c\.toml: method is not a table; write \[method\] and its entries below"):
        read_config(path)
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(InputError, match=r"c\.toml: not a TOML file"):
        read_config(path)
