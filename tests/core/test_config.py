import pytest

from epagcl.core.config import RENAMED_SETTINGS, current_settings, read_config, write_config
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
