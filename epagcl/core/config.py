"""Configuration files: TOML tables of plain values."""

import json
import math
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path

#: Former names of settings, with their current names.
RENAMED_SETTINGS = {"features": "feature_scaling"}
#: Former values of settings, with their current values, by the name of the setting.
RENAMED_VALUES = {"drop": {"eq7": "eq9"}, "add": {"eq7": "eq9"}}


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with their current names and values. Former names and values are accepted.

    Examples:
        >>> current_settings({"features": "none", "drop": "eq7", "epochs": 200})
        {'feature_scaling': 'none', 'drop': 'eq9', 'epochs': 200}
    """
    renamed = {RENAMED_SETTINGS.get(name, name): value for name, value in settings.items()}
    return {name: current_value(name, value) for name, value in renamed.items()}


def current_value(name: str, value: Any) -> Any:
    """Return the current value of a setting. Former values are accepted.

    Examples:
        >>> current_value("drop", "eq7"), current_value("drop", "text")
        ('eq9', 'text')
    """
    return RENAMED_VALUES.get(name, {}).get(value, value) if isinstance(value, str) else value


def warn_of_old_value(name: str, value: Any, *, stacklevel: int = 3) -> Any:
    """Return the current value of a setting, with a warning if it has a value of an earlier version.

    Args:
        name: current name of the setting or argument.
        value: its value.
        stacklevel: as in ``warnings.warn``; by default, the warning points to the caller of the calling function.
    """
    current = current_value(name, value)
    if current is not value:
        warnings.warn(f"{name}={value!r} is now {name}={current!r}", DeprecationWarning, stacklevel=stacklevel)
    return current


def read_config(path: str | Path) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a readable TOML file") from None
    except (ValueError, RecursionError) as error:  # also of text that is not UTF-8
        raise InputError(f"{path}: not a TOML file ({error}); correct it") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            is_method = name == "method"
            fix = "write [method] and its entries below" if is_method else "write it below one, such as [method]"
            raise InputError(f"{path}: {name} is not a table; {fix}")
    return tables


def write_config(path: str | Path, sections: Mapping[str, Mapping[str, Any]]) -> None:
    """Write tables of numbers, strings, booleans and lists of these to a TOML file. None values are omitted.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "config.toml")
        ...     write_config(path, {"method": {"name": "epagcl", "lr": 0.001, "recipe": None}})
        ...     read_config(path)
        {'method': {'name': 'epagcl', 'lr': 0.001}}
    """
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
        lines.append("")
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")


def _toml(value: Any) -> str:
    """Return a number, a string, a boolean or a list of these in the syntax of TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # nan, inf or -inf
    if isinstance(value, str):
        # TOML has no halves of characters, as names of files that are not UTF-8 have them.
        value = value.encode("utf-8", "backslashreplace").decode()
    # What is left has the same syntax as in JSON, except that TOML also escapes the character DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
