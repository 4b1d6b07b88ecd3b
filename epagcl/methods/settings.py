"""Settings of a method: declared as annotated class attributes, validated on construction and in ``fit``."""

import dataclasses
import functools
import inspect
import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from epagcl.core.checks import INT64_LIMIT
from epagcl.core.config import RENAMED_SETTINGS, current_value, warn_of_old_value
from epagcl.core.errors import InputError

#: The possible types of a setting, as messages describe them.
TYPE_WORDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}

#: Settings of the training loop, which a method with ``trained = False`` does not have.
TRAINING_SETTINGS = (
    *("epochs", "lr", "weight_decay", "patience", "precision", "capture"),
    *("subgraphs", "subgraph_nodes"),  # of the methods that have them
)

#: Class attributes of methods that earlier versions had under another name.
RENAMED_ATTRIBUTES = {"validates": "has_validation_loss", "fitted": "saved_attributes", "needs": "cost_note"}

_Class = TypeVar("_Class", bound=type[Any])


def setting(default: Any, meaning: str, choices: tuple[str, ...] = ()) -> Any:
    """Declare a setting of a method.

    Args:
        default: its default value; the annotation gives its type.
        meaning: one-line description for the command line and the documentation.
        choices: the allowed values of a text setting; empty if any value is allowed.

    Examples:
        >>> from epagcl import DGI
        >>> @method_settings
        ... class WideDGI(DGI):
        ...     factor: int = setting(2, "how much wider than DGI")
        >>> WideDGI(factor=3).factor
        3
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "choices": choices})


# Without field specifiers, type checkers take every assigned value for a default: no setting is required.
@dataclass_transform(kw_only_default=True)
def method_settings(cls: _Class) -> _Class:
    """Turn the annotated settings of a method into keyword-only arguments of its constructor.

    Examples:
        >>> from epagcl import DGI
        >>> @method_settings
        ... class WideDGI(DGI):
        ...     dim: int = setting(1024, "width of the embedding")
        >>> WideDGI().dim
        1024
    """
    _rename_old_settings(cls)
    if not getattr(cls, "trained", True):
        _fix_training_settings(cls)
    dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    types = get_type_hints(cls)  # annotations are strings if the module has `from __future__ import annotations`
    for field in dataclasses.fields(cls):
        field.type = types[field.name]
        if field.type not in TYPE_WORDS:
            raise InputError(f"{cls.__name__}.{field.name}: a setting is an int, float, bool or str, not {field.type}")
    type.__setattr__(cls, "__init__", _accept_old_names(vars(cls)["__init__"]))
    return cls


def warn_of_old_names(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with their current names and values, with a warning for each of an earlier version."""
    for old in RENAMED_SETTINGS.keys() & settings.keys():
        new = RENAMED_SETTINGS[old]
        if new in settings:
            raise InputError(f"{old} and {new} are the same setting; give {new} only")
        warnings.warn(f"the setting {old} is now {new}", DeprecationWarning, stacklevel=3)
    renamed = {RENAMED_SETTINGS.get(name, name): value for name, value in settings.items()}
    for name, value in renamed.items():  # no comprehension, which is a stack level of its own before Python 3.12
        renamed[name] = warn_of_old_value(name, value, stacklevel=4)
    return renamed


def rename_attributes(cls: type) -> None:
    """Set class attributes that a method declares under the name of an earlier version, with a warning for each."""
    for old, new in RENAMED_ATTRIBUTES.items():
        if old in vars(cls):
            # The stack level skips this function, __init_subclass__ and ABCMeta.__new__.
            warnings.warn(f"{cls.__name__}.{old} is now {new}", DeprecationWarning, stacklevel=4)
            setattr(cls, new, vars(cls)[old])


def _rename_old_settings(cls: type) -> None:
    """Rename settings that a class declares under the name of an earlier version."""
    annotations = vars(cls).get("__annotations__", {})
    for old in RENAMED_SETTINGS.keys() & annotations.keys():
        new = RENAMED_SETTINGS[old]
        warnings.warn(f"{cls.__name__}: the setting {old} is now {new}", DeprecationWarning, stacklevel=3)
        annotations[new] = annotations.pop(old)
        setattr(cls, new, vars(cls)[old])
        delattr(cls, old)


def _fix_training_settings(cls: type) -> None:
    """Turn the settings of training into constants: attributes that are no arguments of the constructor."""
    annotations = inspect.get_annotations(cls)
    inherited = {field.name: field for field in dataclasses.fields(cls)}
    for name in inherited.keys() & set(TRAINING_SETTINGS):
        annotations[name] = inherited[name].type
        constant = 0 if name == "epochs" else inherited[name].default
        setattr(cls, name, dataclasses.field(default=constant, init=False, metadata=inherited[name].metadata))
    cls.__annotations__ = annotations


def _accept_old_names(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def wrapped(self: Any, *arguments: Any, **settings: Any) -> None:
        init(self, *arguments, **warn_of_old_names(settings))

    return wrapped


def checked_setting(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """Return a setting as its plain type; raise if its type is wrong or it is not among its choices.

    NumPy numbers are converted. Whole numbers are accepted as floats.
    """
    kinds: dict[Any, Any] = {int: numbers.Integral, float: numbers.Real}
    kind: Any = field.type
    if not isinstance(value, kinds.get(kind, kind)) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{field.name}={value!r}: must be {TYPE_WORDS[kind]}")
    if kind is float and not _is_finite(value):
        raise InputError(f"{field.name}={value!r}: must be a finite number")
    if kind is int and not -INT64_LIMIT <= value < INT64_LIMIT:
        raise InputError(f"{field.name}={value!r}: must be below 2⁶³")
    choices = field.metadata.get("choices")
    if choices and value not in choices:  # assigned as an attribute, or the default of a subclass
        value = current_value(field.name, value)
    if choices and value not in choices and not (field.name == "device" and str(value).startswith("cuda:")):
        raise InputError(f"{field.name}={value!r}: choose one of {', '.join(choices)}")
    return value if type(value) in (int, float) else kind(value)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False
