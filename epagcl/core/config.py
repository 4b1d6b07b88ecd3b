"""Configuration files: TOML tables of plain values."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path

#: Former names of settings, with their current names.
RENAMED_SETTINGS = {"features": "feature_scaling"}


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings under their current names. Former names are accepted.

    Examples:
        >>> current_settings({"features": "none", "epochs": 200})
        {'feature_scaling': 'none', 'epochs': 200}
    """
    return {RENAMED_SETTINGS.get(name, name): value for name, value in settings.items()}


def read_config(path: str | Path) -> dict[str, Any]:
    """Return the tables of a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a readable TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a TOML file ({error}); correct it") from None


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
        # Numbers, strings, booleans and lists have the same syntax in JSON and in TOML.
        lines += [
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items() if value is not None
        ]
        lines.append("")
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")
