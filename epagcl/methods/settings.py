"""Settings of a method: declared as annotated class attributes, checked when used."""

import dataclasses
import functools
import math
import numbers
import warnings
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from epagcl.core.config import RENAMED_SETTINGS, current_settings
from epagcl.core.errors import InputError

#: The types that a setting can have, in words.
TYPE_WORDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}

_Class = TypeVar("_Class", bound=type)


def setting(default: Any, meaning: str, choices: tuple[str, ...] = ()) -> Any:
    """Declare a setting of a method.

    Args:
        default: its default value; the annotation gives its type.
        meaning: one line for the command line and the documentation.
        choices: the values that a text may have; empty: any.
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "choices": choices})


@dataclass_transform(kw_only_default=True, field_specifiers=(setting,))
def method_settings(cls: _Class) -> _Class:
    """Make a method's annotated settings the keyword-only arguments of its constructor."""
    decorated = dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    types = get_type_hints(decorated)  # strings where a module has `from __future__ import annotations`
    for field in dataclasses.fields(decorated):
        field.type = types[field.name]
        if field.type not in TYPE_WORDS:
            raise InputError(
                f"{decorated.__name__}.{field.name}: a setting is an int, float, bool or str, not {field.type}"
            )
    decorated.__init__ = _accepting_old_names(decorated.__init__)
    return decorated


def warn_of_old_names(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings under their current names, with a warning for each name of an earlier version."""
    for old in RENAMED_SETTINGS.keys() & settings.keys():
        warnings.warn(f"the setting {old} is now {RENAMED_SETTINGS[old]}", DeprecationWarning, stacklevel=3)
    return current_settings(settings)


def _accepting_old_names(init: Any) -> Any:
    @functools.wraps(init)
    def wrapped(self: Any, **settings: Any) -> None:
        init(self, **warn_of_old_names(settings))

    return wrapped


def checked_setting(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """Return a setting as its plain type, or raise if it has the wrong type or is none of its choices.

    NumPy numbers are converted, and a whole number is a float too.
    """
    kinds: dict[Any, Any] = {int: numbers.Integral, float: numbers.Real}
    kind: Any = field.type
    if not isinstance(value, kinds.get(kind, kind)) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{field.name}={value!r}: must be {TYPE_WORDS[kind]}")
    if kind is float and not math.isfinite(value):
        raise InputError(f"{field.name}={value!r}: must be a finite number")
    choices = field.metadata.get("choices")
    if choices and value not in choices and not (field.name == "device" and str(value).startswith("cuda:")):
        raise InputError(f"{field.name}={value!r}: choose one of {', '.join(choices)}")
    return value if type(value) in (int, float) else kind(value)
