"""All methods by name. ``epagcl.methods()`` lists them, ``epagcl.method(name)`` is the class."""

import difflib
import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from epagcl.config import read_config
from epagcl.errors import InputError
from epagcl.methods.base import Method, method_settings, setting

__all__ = ["Method", "load_model", "method", "method_settings", "names", "setting"]


def _registry() -> dict[str, type[Method]]:
    """Every concrete method: those of this folder's files, and users' own subclasses of :class:`Method`."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    found, queue = {}, [Method]
    while queue:
        cls = queue.pop()
        queue += cls.__subclasses__()
        if "name" in vars(cls):
            found.setdefault(
                cls.name.lower(), cls
            )  # the newest first: a class that is defined again replaces the old one
    return dict(sorted(found.items()))


def names() -> list[str]:
    """Names of all methods."""
    return list(_registry())


def method(name: str) -> type[Method]:
    """The class of a method, by name in any case."""
    registry = _registry()
    if name.lower() not in registry:
        close = difflib.get_close_matches(name.lower(), registry, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(registry)}"
        raise InputError(f"no method {name!r}; {hint}")
    return registry[name.lower()]


def load_model(folder: str | Path, device: str = "auto") -> Method:
    """The trained model in a folder that ``save`` or ``epagcl train`` wrote, on ``device``."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one that save() or `epagcl train` wrote")
    if not (folder / "model.safetensors").exists() and (seeds := sorted(folder.glob("seed-*/model.safetensors"))):
        raise InputError(f"{folder}: a run of several seeds; give one of them, such as {seeds[0].parent}")
    config = read_config(folder / "config.toml")
    if "method" not in config or "model" not in config:
        raise InputError(
            f"{folder}/config.toml: no trained model; give a folder that save() or `epagcl train` finished"
        )
    settings = {**config["method"], "device": device}
    cls = method(settings.pop("name"))
    if unknown := set(settings) - {field.name for field in cls.setting_fields()}:
        raise InputError(f"{folder}/config.toml: {cls.name} has no setting {sorted(unknown)[0]!r}; was it edited?")
    return cls(**settings).load_weights(folder, config["model"])


class _CallableModule(ModuleType):
    """``epagcl.methods`` is this package and, as the public contract has it, a function: calling it lists the names."""

    def __call__(self) -> list[str]:
        return names()


sys.modules[__name__].__class__ = _CallableModule
