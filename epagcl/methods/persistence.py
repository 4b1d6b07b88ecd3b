"""Trained models on disk: ``config.toml`` with the settings, ``model.safetensors`` with the weights; no pickle."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from epagcl.core.config import write_config
from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.hardware import resolve_device
from epagcl.core.version import __version__

if TYPE_CHECKING:
    from epagcl.methods.base import Method

WEIGHTS = "model.safetensors"
CONFIG = "config.toml"


def save_model(model: "Method", folder: str | Path, **sections: dict[str, Any]) -> None:
    """Write the settings and the weights of a trained model.

    Args:
        model: the trained model.
        folder: created if it does not exist.
        sections: further tables of the configuration file.
    """
    state = {key: value.detach().cpu().contiguous() for key, value in model.fitted_network.state_dict().items()}
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give the name of a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(folder / WEIGHTS) as path:
        save_file(state, path)
    attributes = (*type(model).saved_attributes, "feature_names_")
    table = {name.removesuffix("_"): getattr(model, name) for name in attributes} | {"version": __version__}
    write_config(folder / CONFIG, {"method": model.settings(), "model": table, **sections})


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
        setattr(model, name, table[name.removesuffix("_")])
    model.feature_names_ = table.get("feature_names")
    model.history_ = []  # the history of training is not stored with the weights
    model.network_ = model.initial_network()
    try:
        model.network_.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not the weights that {CONFIG} in the same folder describes ({reason})") from None
    model.network_.to(resolve_device(model.device)).eval()
