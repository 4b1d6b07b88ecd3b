"""Configuration files: TOML tables of plain values."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path

#: Settings that earlier versions had under another name.
RENAMED_SETTINGS = {"features": "feature_scaling"}


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings under their current names; names of earlier versions are accepted."""
    return {RENAMED_SETTINGS.get(name, name): value for name, value in settings.items()}


def read_config(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a TOML file ({error})") from None


def write_config(path: str | Path, sections: dict[str, dict[str, Any]]) -> None:
    """Write tables of plain values (numbers, text, booleans, lists of these); None is left out."""
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        # JSON's numbers, text, booleans and lists are TOML's too.
        lines += [
            f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items() if value is not None
        ]
        lines.append("")
    with atomic_path(path) as temporary:
        temporary.write_text("\n".join(lines), encoding="utf-8")
