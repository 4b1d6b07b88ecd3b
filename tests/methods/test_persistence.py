import re
import warnings

import pytest
import torch

import epagcl
from epagcl import EPAGCL
from epagcl.core.errors import InputError

SMALL = {"hidden": 32, "dim": 16, "projection": 16, "device": "cpu"}


def test_a_loaded_model_equals_the_saved_one(tmp_path, small_graph):
    model = EPAGCL(epochs=2, temperature=0.4, **SMALL).fit(small_graph)
    model.save(tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["config.toml", "model.safetensors"]
    loaded = epagcl.load_model(tmp_path / "run", device="cpu")
    assert isinstance(loaded, EPAGCL)
    assert loaded.get_params() == model.get_params()
    assert torch.equal(loaded.embed(small_graph), model.embed(small_graph))


def test_errors_of_folders_without_a_model(tmp_path):
    with pytest.raises(InputError, match=r"config\.toml: no such file"):
        epagcl.load_model(tmp_path)


def test_a_damaged_model_gives_a_one_line_error(tmp_path, small_graph):
    EPAGCL(epochs=0, **SMALL).fit(small_graph).save(tmp_path)
    text = (tmp_path / "config.toml").read_text()
    (tmp_path / "config.toml").write_text(text.replace("dim = 16", "dim = 17"))
    with pytest.raises(InputError, match=r"not the weights that config\.toml"):
        epagcl.load_model(tmp_path)
    (tmp_path / "config.toml").write_text(text.replace("dim = 16", "dmi = 16"))
    with pytest.raises(InputError, match="epagcl has no setting 'dmi'"):
        epagcl.load_model(tmp_path)
    (tmp_path / "config.toml").write_text(text)
    (tmp_path / "model.safetensors").write_bytes(b"half")
    with pytest.raises(InputError, match=r"not the weights that config\.toml"):
        epagcl.load_model(tmp_path)


def test_a_model_cannot_be_saved_to_a_file(small_graph, tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(InputError, match="model: is a file; give the name of a folder"):
        EPAGCL(**SMALL).fit(small_graph).save(tmp_path / "model")


def test_further_sections_are_written_to_the_configuration(tmp_path, small_graph):
    model = EPAGCL(epochs=0, **SMALL).fit(small_graph)
    model.save(tmp_path, graph={"name": "small"})
    assert '[graph]\nname = "small"' in (tmp_path / "config.toml").read_text()
    assert epagcl.load_model(tmp_path, device="cpu").get_params() == model.get_params()


def test_a_model_of_version_0_1_loads(tmp_path, small_graph):
    """Its configuration has the setting ``features``, which is now ``feature_scaling``."""
    model = EPAGCL(epochs=2, feature_scaling="row-sum", **SMALL).fit(small_graph)
    model.save(tmp_path)
    config = tmp_path / "config.toml"
    text, renamed = re.subn(r"^feature_scaling = ", "features = ", config.read_text(), flags=re.MULTILINE)
    assert renamed == 1
    config.write_text(text)
    with warnings.catch_warnings(action="error"):  # the user cannot change the file's format
        loaded = epagcl.load_model(tmp_path, device="cpu")
    assert loaded.feature_scaling == "row-sum"
    assert torch.equal(loaded.embed(small_graph), model.embed(small_graph))
    loaded.save(tmp_path / "again")
    assert 'feature_scaling = "row-sum"' in (tmp_path / "again" / "config.toml").read_text()


def test_a_model_with_a_former_value_of_a_setting_loads(tmp_path, small_graph):
    """The value ``eq9`` of ``drop`` and ``add`` was ``eq7`` in version 0.1."""
    model = EPAGCL(epochs=2, **SMALL).fit(small_graph)
    model.save(tmp_path)
    config = tmp_path / "config.toml"
    assert config.read_text().count('"eq9"') == 2
    config.write_text(config.read_text().replace('"eq9"', '"eq7"'))
    with warnings.catch_warnings(action="error"):
        loaded = epagcl.load_model(tmp_path, device="cpu")
    assert (loaded.drop, loaded.add) == ("eq9", "eq9")
    assert torch.equal(loaded.embed(small_graph), model.embed(small_graph))
    loaded.save(tmp_path / "again")
    assert '"eq7"' not in (tmp_path / "again" / "config.toml").read_text()


def test_a_configuration_without_a_saved_attribute_is_rejected(tmp_path, small_graph):
    EPAGCL(epochs=0, **SMALL).fit(small_graph).save(tmp_path)
    config = tmp_path / "config.toml"
    config.write_text(re.sub(r"^num_features = .*\n", "", config.read_text(), flags=re.MULTILINE))
    with pytest.raises(InputError, match=r"\[model\] has no num_features; was it edited\?"):
        epagcl.load_model(tmp_path)
