"""All methods by name, users' subclasses of :class:`~epagcl.methods.Method` included; trained models by folder."""

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from epagcl.core.errors import InputError
from epagcl.core.formatting import suggestion
from epagcl.methods.base import Method
from epagcl.methods.persistence import CONFIG, WEIGHTS, read_model_config


def names() -> list[str]:
    """Return the names of all methods.

    Examples:
        >>> "epagcl" in names()
        True
    """
    return list(_registry())


def method(name: str) -> type[Method]:
    """Return the class of a method. Case does not matter.

    Examples:
        >>> method("grace").title
        'GRACE'
    """
    registry = _registry()
    if name.lower() not in registry:
        raise InputError(f"no method {name!r}; {suggestion(name.lower(), registry)}")
    return registry[name.lower()]


def load_model(folder: str | Path, device: str = "auto") -> Method:
    """Load a trained model from a folder that ``save`` or ``epagcl train`` wrote.

    Args:
        folder: the folder.
        device: auto, cpu, cuda or mps.

    Examples:
        >>> import tempfile
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> model = epagcl.EPAGCL(epochs=1, hidden=8, dim=4, projection=4, device="cpu").fit(data)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(folder)
        ...     loaded = load_model(folder, device="cpu")
        >>> loaded.embed(data).equal(model.embed(data))
        True
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one that save() or `epagcl train` wrote")
    if not (folder / WEIGHTS).exists() and (seeds := sorted(folder.glob(f"seed-*/{WEIGHTS}"))):
        raise InputError(f"{folder}: a run of several seeds; give one of them, such as {seeds[0].parent}")
    settings, table = read_model_config(folder)
    settings["device"] = device
    cls = method(settings.pop("name"))
    if unknown := set(settings) - {field.name for field in cls.setting_fields()}:
        raise InputError(f"{folder}/{CONFIG}: {cls.name} has no setting {sorted(unknown)[0]!r}; was it edited?")
    return cls(**settings).load_weights(folder, table)


@cache
def _import_methods() -> None:
    """Import the modules of this package, so that their classes exist."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__package__}.{module.name}")


def _registry() -> dict[str, type[Method]]:
    """Return every class with a ``name``."""
    _import_methods()
    classes: dict[str, type[Method]] = {}
    queue = Method.__subclasses__()
    while queue:
        cls = queue.pop()  # the newest first, so that a class that is defined again replaces the earlier one
        queue += cls.__subclasses__()
        if "name" in vars(cls):
            classes.setdefault(cls.name.lower(), cls)
    return dict(sorted(classes.items()))
