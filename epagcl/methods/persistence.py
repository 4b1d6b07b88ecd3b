"""Trained models on disk: ``config.toml`` with the settings, ``model.safetensors`` with the weights; no pickle.

A model of an encoded table also has ``columns.json``, the encoding of its columns. A model that was aligned with an
earlier one also has ``rotation.safetensors``.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from epagcl.core.config import current_settings, read_config, write_config
from epagcl.core.errors import InputError, OutputError
from epagcl.core.files import atomic_path, write_failure, write_json
from epagcl.core.hardware import resolve_device
from epagcl.core.rescue import rescue
from epagcl.core.version import __version__
from epagcl.data.io.columns.encoding import TableEncoding
from epagcl.training.checkpoint import tensor_digest

if TYPE_CHECKING:
    from epagcl.methods.base import Method

WEIGHTS = "model.safetensors"
CONFIG = "config.toml"
COLUMNS = "columns.json"
ROTATION = "rotation.safetensors"
NOT_ENCODED = "none"  # in place of the digest of columns.json


def save_model(model: "Method", folder: str | Path, **sections: dict[str, Any]) -> None:
    """Write the settings and the weights of a trained model.

    Args:
        model: the trained model.
        folder: created if it does not exist.
        sections: further tables of the configuration file.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give the name of a folder")
    try:
        _write_model(model, folder, sections)
    except OutputError as error:
        raise rescue(error, lambda place: _write_model(model, place, sections), "the trained model") from error


def _write_model(model: "Method", folder: Path, sections: dict[str, dict[str, Any]]) -> None:
    state = {key: value.detach().cpu().contiguous() for key, value in model.fitted_network.state_dict().items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(folder, error.errno) from error
    columns = _write_encoding(model.encoding_, folder / COLUMNS)
    attributes = [*type(model).saved_attributes, "feature_names_"]
    attributes += ["relation_names_", "relation_strengths_"] if model.relation_names_ else []
    table = {name.removesuffix("_"): getattr(model, name) for name in attributes}
    table |= {"weighted": model.weighted_} if model.weighted_ is not None else {}
    table |= {"version": __version__, "weights": tensor_digest(state), "columns": columns}
    if model.rotation_ is None:
        (folder / ROTATION).unlink(missing_ok=True)
    else:
        rotation = {"rotation": model.rotation_.detach().cpu().contiguous()}
        table["rotation"] = tensor_digest(rotation)
        with atomic_path(folder / ROTATION) as path:
            path.write_bytes(save(rotation))
    # The configuration is written last. Until then it does not have the digests of the new files.
    with atomic_path(folder / WEIGHTS) as path:
        path.write_bytes(save(state))  # save_file would leave its own temporary file after a kill
    write_config(folder / CONFIG, {"method": model.settings(), "model": table, **sections})


def read_model_config(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the ``[method]`` and the ``[model]`` table of a trained model. Raise if they are not complete.

    Args:
        folder: the folder of the model.
    """
    config = read_config(folder / CONFIG)
    if "method" not in config or "model" not in config:
        raise InputError(f"{folder}/{CONFIG}: no trained model; give a folder that save() or `epagcl train` finished")
    settings, table = current_settings(config["method"]), config["model"]
    if not isinstance(settings.get("name"), str):
        raise InputError(f"{folder}/{CONFIG}: [method] has no name of a method; was it edited?")
    return settings, table


def load_weights(model: "Method", folder: str | Path, table: dict[str, Any]) -> None:
    """Load weights into a model with the same settings. :func:`save_model` wrote the weights.

    Args:
        model: the model.
        folder: the folder with the weights.
        table: the ``[model]`` table of its configuration file.
    """
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        raise InputError(f"{folder}: no {WEIGHTS}; give a folder that save() or `epagcl train` finished")
    for name in type(model).saved_attributes:
        if name.removesuffix("_") not in table:
            raise InputError(f"{folder}/{CONFIG}: [model] has no {name.removesuffix('_')}; was it edited?")
        setattr(model, name, _checked(name, table[name.removesuffix("_")], folder))
    names = table.get("feature_names")
    if names is not None and (not isinstance(names, list) or len(names) != model.num_features_):
        raise InputError(f"{folder}/{CONFIG}: feature_names does not have one name per column; was it edited?")
    model.feature_names_, model.encoding_ = names, _read_encoding(Path(folder) / COLUMNS, table.get("columns"))
    model.relation_names_, model.relation_strengths_ = _relations(table, folder)
    weighted = table.get("weighted")  # models of earlier versions do not know
    model.weighted_ = weighted if isinstance(weighted, bool) else None
    model.rotation_ = _read_rotation(Path(folder), table.get("rotation"))
    model.history_ = []  # the history of training is not stored with the weights
    try:
        state = load_file(path)
        if "weights" in table and table["weights"] != tensor_digest(state):
            raise RuntimeError("their checksum differs")
        model.network_ = model.initial_network()
        model.network_.load_state_dict(state)
    except (SafetensorError, OSError, RuntimeError, KeyError, TypeError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path}: not the weights that {CONFIG} in the same folder describes ({reason})") from None
    model.network_.to(resolve_device(model.device)).eval()


def _relations(table: dict[str, Any], folder: str | Path) -> tuple[list[str], list[float]]:
    """Return the names and the strengths of the relations of the training graph; empty if it had none."""
    names, strengths = table.get("relation_names", []), table.get("relation_strengths", [])
    lists = isinstance(names, list) and isinstance(strengths, list) and len(names) == len(strengths)
    if not lists or not all(isinstance(name, str) for name in names):
        raise InputError(f"{folder}/{CONFIG}: relation_names and relation_strengths do not match; was it edited?")
    if not all(isinstance(strength, int | float) for strength in strengths):
        raise InputError(f"{folder}/{CONFIG}: relation_strengths are not numbers; was it edited?")
    return names, [float(strength) for strength in strengths]


def _checked(name: str, value: Any, folder: str | Path) -> Any:
    """Return a saved attribute. Raise unless counts are counts."""
    if name.startswith("num_") and not (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        raise InputError(f"{folder}/{CONFIG}: {name.removesuffix('_')} = {value!r} is not a count; was it edited?")
    return value


def _read_rotation(folder: Path, digest: str | None) -> Tensor | None:
    """Return the rotation into the axes of an earlier model; None if the model was not aligned."""
    if digest is None:
        return None
    try:
        state = load_file(folder / ROTATION)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{folder / ROTATION}: cannot be read ({error}); save the model again") from None
    if tensor_digest(state) != digest:
        raise InputError(f"{folder / ROTATION}: not the rotation that {CONFIG} describes; save the model again")
    return state["rotation"]


def _write_encoding(encoding: TableEncoding | None, path: Path) -> str:
    """Write the encoding of the columns, if there is one. Return the digest of the file, or that there is none."""
    if encoding is None:
        path.unlink(missing_ok=True)
        return NOT_ENCODED
    write_json(encoding.to_dict(), path)
    return sha256(path.read_bytes()).hexdigest()


def _read_encoding(path: Path, digest: str | None) -> TableEncoding | None:
    """Return the encoding of the columns of a table; None if they were used as they are.

    Args:
        path: the file.
        digest: its digest, or :data:`NOT_ENCODED`; None in models of earlier versions, which did not store it.
    """
    if digest == NOT_ENCODED or (digest is None and not path.is_file()):
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); save the model again") from None
    if digest is not None and digest != sha256(content).hexdigest():
        raise InputError(f"{path}: not the columns that {CONFIG} describes; save the model again")
    try:
        return TableEncoding.from_dict(json.loads(content), str(path))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not a JSON file; save the model again") from None
