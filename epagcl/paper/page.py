"""One page of all results, made from the artefacts' JSON files alone."""

import json
import os
from pathlib import Path
from typing import Any

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.paper import ARTEFACTS, find_artefact
from epagcl.paper.artefact import Artefact, Result
from epagcl.paper.tables import markdown
from epagcl.paper.verdicts import verdicts

FIGURES = Path("figures") / "paper"
HEAD = """# The paper, measured anew

Every table and figure of the paper's experiments, computed by this library beside what the paper reports. The page is
made by `epagcl paper page` from the files under `results/paper`, words included; nothing on it is written by hand. Each
section names the command that fills it again. *strict*: the embedding of the recipe's last epoch; the classifier is
chosen on validation nodes, and test nodes are read once. *paper*: the paper's classifier, likewise at the last epoch.
More in [Evaluation](evaluation.md); [what the paper claims](paper.md) in short.
"""


def read_results(folder: Path) -> dict[str, Result]:
    """The results that are there, in the order of the artefacts."""
    paths = {name: folder / f"{name}.json" for name in ARTEFACTS}
    try:
        found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.is_file()}
        if odd := [name for name, result in found.items() if result.get("artefact") != name]:
            raise ValueError(f"{odd[0]}.json is not a result of `epagcl paper {odd[0]}`")
    except ValueError as error:
        raise InputError(f"{folder}: a result that is not whole ({error}); make it again") from None
    if not found:
        raise InputError(f"{folder}: no results ({', '.join(path.name for path in paths.values())}); make some first")
    return found


def page_text(results: dict[str, Result]) -> str:
    """The page as Markdown."""
    parts = [
        HEAD,
        "## In short\n\n" + markdown(verdicts(results)),
        *(_section(find_artefact(name), result) for name, result in results.items()),
    ]
    if missing := [name for name in ARTEFACTS if name not in results]:
        parts.append("## Not measured\n\n" + ", ".join(f"`epagcl paper {name}`" for name in missing) + "\n")
    return "\n".join(parts)


def _section(made: Artefact, result: Result) -> str:
    source, summary = ARTEFACTS[made.name][1:]
    lines = [f"## {made.title}", "", f"{source}: {summary}.", ""]
    for words in made.reading(result):
        lines += [f"- {words}"]
    for slug in made.figures(result):
        stem = FIGURES / made.stem(slug)
        lines += ["", f"[![{made.title}{f', {slug}' if slug else ''}]({stem.as_posix()}.png)]({stem.as_posix()}.svg)"]
    for table in made.tables(result):
        lines += ["", markdown(table).rstrip("\n")]
    hardware = " and ".join(hardware_of(result))
    asked = [name.lower() for name in result["asked"]["datasets"]]
    if missing := [name for name in made.datasets if name.lower() not in asked]:
        lines += ["", f"By default also on: {', '.join(missing)}; not run here."]
    lines += [
        "",
        f"`{result['command']}`; measured on {hardware}, put together {result['date'][:10]} at "
        f"{(result['commit'] or '?')[:7]}.",
        "",
    ]
    return "\n".join(lines)


def hardware_of(result: Result) -> list[str]:
    """Where the runs of a result were made; of one without runs, where it was computed."""
    if "measured_on" in result:
        return result["measured_on"]
    found: set[str] = set()

    def walk(part: Any) -> None:
        if isinstance(part, list):
            for one in part:
                walk(one)
        elif isinstance(part, dict):
            where = part.get("hardware", part.get("device"))
            if isinstance(where, str | list):
                found.update([where] if isinstance(where, str) else where)
            for name, one in part.items():
                if name != "settings":
                    walk(one)

    walk([result.get(key) for key in ("cells", "rows", "graphs")])
    return sorted(found) or [result["hardware"]["device"]]


def write_page(results: Path, docs: Path) -> Path:
    """``results.md`` and its figures."""
    found = read_results(results)
    path = docs / "results.md"
    docs.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(page_text(found), encoding="utf-8")
    wanted = set()
    for name, result in found.items():
        wanted |= {os.fspath(file) for file in find_artefact(name).draw(result, docs / FIGURES)}
    for old in (docs / FIGURES).glob("*.*"):
        if os.fspath(old) not in wanted:
            old.unlink()
    return path
