import pytest

from epagcl.core.config import read_config, write_config
from epagcl.core.errors import InputError


def test_round_trip(tmp_path):
    sections = {"method": {"name": 'épa "gcl"\\', "lr": 1e-05, "epochs": 3, "flag": True, "list": [1, 2]}, "data": {}}
    write_config(tmp_path / "c.toml", sections)
    assert read_config(tmp_path / "c.toml") == sections


def test_none_is_left_out(tmp_path):
    write_config(tmp_path / "c.toml", {"a": {"x": None, "y": 1}})
    assert read_config(tmp_path / "c.toml") == {"a": {"y": 1}}


def test_mistakes_are_one_line(tmp_path):
    with pytest.raises(InputError, match=r"c\.toml: no such file"):
        read_config(tmp_path / "c.toml")
    (tmp_path / "c.toml").write_text("a = = 1")
    with pytest.raises(InputError, match=r"c\.toml: not a TOML file"):
        read_config(tmp_path / "c.toml")
