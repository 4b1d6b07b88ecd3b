import errno
import hashlib
import re
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import epagcl
from epagcl import EPAGCL, Propagated, load_model
from epagcl.core.errors import InputError, OutputError

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


def test_weights_of_another_training_are_not_mixed_with_a_configuration(tmp_path, small_graph):
    for seed in (0, 1):
        EPAGCL(epochs=1, seed=seed, **SMALL).fit(small_graph).save(tmp_path / str(seed))
    shutil.copy(tmp_path / "1/model.safetensors", tmp_path / "0/model.safetensors")
    with pytest.raises(InputError, match=r"not the weights that config\.toml .* describes \(their checksum differs\)"):
        load_model(tmp_path / "0")


def test_every_changed_byte_of_the_weights_is_noticed(tmp_path, small_graph):
    EPAGCL(epochs=1, **SMALL).fit(small_graph).save(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 30):
        damaged = bytearray(whole)
        damaged[place] ^= 0x11
        (tmp_path / "model.safetensors").write_bytes(damaged)
        with pytest.raises(InputError, match=r"model\.safetensors: not the weights"):
            load_model(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('name = "epagcl"', "name = 3", r"\[method\] has no name of a method; was it edited\?"),
        ("num_features = 40", "num_features = 1000000000000", "need .* GiB of memory"),
        ("num_features = 40", "num_features = -1", "num_features = -1 is not a count"),
        ("num_features = 40", 'num_features = "x"', "num_features = 'x' is not a count"),
        ("[method]", "method = 3\n[other]", r"method is not a table; write \[method\]"),
        ("lr = 0.001", 'lr = "fast"', "lr='fast': must be a number"),
    ],
)
def test_edited_configurations_are_refused_in_one_line(tmp_path, small_graph, old, new, reason):
    EPAGCL(epochs=1, **SMALL).fit(small_graph).save(tmp_path)
    text = (tmp_path / "config.toml").read_text()
    assert old in text
    (tmp_path / "config.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=reason):
        load_model(tmp_path, device="cpu")


def test_a_model_that_cannot_be_written_is_kept_elsewhere(tmp_path, small_graph, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    (tmp_path / "full").mkdir()
    write = Path.write_bytes

    def full(path, content):
        if elsewhere not in path.parents:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    model = EPAGCL(epochs=1, **SMALL).fit(small_graph)
    with pytest.raises(OutputError, match=r"No space left on device.*\. The trained model is kept in ") as caught:
        model.save(tmp_path / "full")
    kept = load_model(str(caught.value).split(" is kept in ")[1], device="cpu")
    assert torch.equal(kept.embed(small_graph), model.embed(small_graph))


def test_a_control_character_in_the_name_of_a_column(tmp_path, small_graph):
    data = small_graph.clone().update({"feature_names": [f"a\x7f{k}" for k in range(40)]})
    EPAGCL(epochs=1, **SMALL).fit(data).save(tmp_path)
    assert load_model(tmp_path).feature_names_ == data.feature_names


def test_the_encoding_of_a_table_is_saved_and_checked(tmp_path):
    table = pd.DataFrame({"id": range(6), "city": list("abcabc"), "age": [1, 2, 3, 4, None, 6]})
    data = epagcl.from_tables([(k, (k + 1) % 6) for k in range(6)], table)
    model = epagcl.method("propagated")(dim=2, device="cpu").fit(data)
    model.save(tmp_path)
    loaded = epagcl.load_model(tmp_path, device="cpu")
    assert loaded.encoding_ == model.encoding_ == data.encoding
    columns, config = tmp_path / "columns.json", tmp_path / "config.toml"
    digest = hashlib.sha256(columns.read_bytes()).hexdigest()
    for text, reason in (("{", "not a JSON file"), ("{}", "not an encoding of columns")):
        columns.write_text(text)
        changed = hashlib.sha256(columns.read_bytes()).hexdigest()
        config.write_text(config.read_text().replace(digest, changed))
        digest = changed
        with pytest.raises(InputError, match=rf"columns.json: {reason}.*; save the model again"):
            epagcl.load_model(tmp_path, device="cpu")
    plain = epagcl.from_tables([(k, (k + 1) % 6) for k in range(6)], table[["id"]].assign(a=[1, 2, 3, 4, 5, 6]))
    epagcl.method("propagated")(dim=1, device="cpu").fit(plain).save(tmp_path)
    assert not (tmp_path / "columns.json").exists()
    assert epagcl.load_model(tmp_path, device="cpu").encoding_ is None


def test_the_rotation_of_an_aligned_model_is_saved(tmp_path, small_graph):
    model = Propagated(dim=2, device="cpu").fit(small_graph)
    model.rotation_ = torch.tensor([[0.6, 0.8], [-0.8, 0.6]])
    model.save(tmp_path)
    assert load_model(tmp_path, device="cpu").embed(small_graph).equal(model.embed(small_graph))
    (tmp_path / "rotation.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"rotation\.safetensors: cannot be read"):
        load_model(tmp_path, device="cpu")
    other = Propagated(dim=2, device="cpu").fit(small_graph)
    other.rotation_ = torch.eye(2)
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "rotation.safetensors", tmp_path)
    with pytest.raises(InputError, match="not the rotation that"):
        load_model(tmp_path, device="cpu")
    Propagated(dim=2, device="cpu").fit(small_graph).save(tmp_path)
    assert not (tmp_path / "rotation.safetensors").exists()
    assert load_model(tmp_path, device="cpu").rotation_ is None


def encoded_model(cities):
    table = pd.DataFrame({"id": range(6), "city": list(cities)})
    return Propagated(dim=1, device="cpu").fit(epagcl.from_tables([(k, (k + 1) % 6) for k in range(6)], table))


def test_columns_of_another_training_are_not_mixed_with_a_model(tmp_path):
    """As after a save that was interrupted, over a model of another table."""
    encoded_model("ababab").save(tmp_path)
    encoded_model("xyxyxy").save(tmp_path / "new")
    shutil.copy(tmp_path / "new/columns.json", tmp_path)
    with pytest.raises(InputError, match=r"columns\.json: not the columns that config\.toml describes; save the model"):
        load_model(tmp_path)
    (tmp_path / "columns.json").unlink()
    with pytest.raises(InputError, match=r"columns\.json: cannot be read \(No such file"):
        load_model(tmp_path)


def test_a_model_without_encoded_columns_ignores_those_of_an_interrupted_save(tmp_path, small_graph):
    Propagated(dim=2, device="cpu").fit(small_graph).save(tmp_path)
    encoded_model("xyxyxy").save(tmp_path / "new")
    shutil.copy(tmp_path / "new/columns.json", tmp_path)
    assert load_model(tmp_path).encoding_ is None


def test_a_model_without_the_digest_of_its_columns_loads(tmp_path):
    """As models of earlier versions."""
    model = encoded_model("ababab")
    model.save(tmp_path)
    config = tmp_path / "config.toml"
    config.write_text(re.sub(r"^columns = .*\n", "", config.read_text(), flags=re.MULTILINE))
    assert load_model(tmp_path).encoding_ == model.encoding_
    encoded_model("ababab").save(tmp_path / "plain")
    config = tmp_path / "plain" / "config.toml"
    config.write_text(re.sub(r"^columns = .*\n", "", config.read_text(), flags=re.MULTILINE))
    (tmp_path / "plain" / "columns.json").unlink()
    assert load_model(tmp_path / "plain").encoding_ is None
