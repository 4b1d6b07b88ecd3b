"""One page with all results, made from the JSON files of the artefacts."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path, reading
from epagcl.core.formatting import short_commit
from epagcl.paper import ARTEFACTS, find_artefact
from epagcl.paper.artefact import Artefact, Result, digest
from epagcl.paper.drawing import save, was_drawn
from epagcl.paper.page import whole_methods
from epagcl.paper.page.first_page import figures as first_page_figures
from epagcl.paper.page.first_page import first_page
from epagcl.paper.page.verdicts import verdicts
from epagcl.paper.tables import markdown, wrap
from epagcl.paper.tuned.budget import TUNED
from epagcl.study.summary import Comparison, read_comparison

FIGURES = Path("figures") / "paper"
COMPARISON_FILE = "comparison.json"
#: What every result says about itself.
PROVENANCE = ("command", "date", "commit", "hardware", "asked")
HEAD = """# The paper's results, reproduced

This page has the tables and figures of the paper's experiments, computed by this library on the graphs whose data are
here, with the numbers that the paper reports. `epagcl paper page` generates it, text included, from the files under
`results`. Nothing on it is written by hand. Each section ends with the command that computes it, and with a commit; a
plus sign stands for changes that were not committed. `epagcl paper plan` lists what is missing.

The *strict* protocol scores the embedding of the recipe's last epoch. The classifier is chosen on validation nodes, and
test nodes are used once. The *paper* protocol uses the paper's classifier, also at the last epoch. A star, as in
GCA\\*, means that no features are masked. [Evaluation](evaluation.md) describes the protocols, and [What in the paper
holds](paper.md) summarises the claims.
Paired tests are corrected for overlapping splits ([How the verdicts are decided](#how-the-verdicts-are-decided)).
"""


def read_results(folder: Path) -> dict[str, Result]:
    """Return the results in a folder, in the order of the artefacts."""
    paths = {name: folder / f"{name}.json" for name in ARTEFACTS}
    results = {name: _read_result(path, name) for name, path in paths.items() if path.is_file()}
    if not results:
        raise InputError(f"{folder}: no results; compute some first, such as with `epagcl paper epr --out {folder}`")
    return results


def _read_result(path: Path, name: str) -> Result:
    with reading(path, _fix(name)):
        result: Result = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        if not isinstance(result, dict) or result.get("artefact") != name:
            raise ValueError(f"not a result of `epagcl paper {name}`")
        if absent := [key for key in PROVENANCE if key not in result]:
            raise ValueError(f"{absent[0]} is missing")
    return result


def _fix(name: str) -> str:
    return f"compute it again with `epagcl paper {name}`"


def _refuse(constant: str) -> NoReturn:
    """Raise: JSON has no NaN or infinity."""
    raise ValueError(f"{constant} is no number")


@contextmanager
def naming_damaged(folder: Path, results: Mapping[str, Result], comparison: Comparison | None) -> Iterator[None]:
    """Name the damaged file if a computation on results fails.

    Args:
        folder: the folder of the results.
        results: the results in it.
        comparison: the comparison beside the folder, if there is one.
    """
    try:
        yield
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        for name, result in results.items():
            with reading(folder / f"{name}.json", _fix(name)):
                _section(find_artefact(name), result)
        if comparison is not None:
            with reading(folder.parent / COMPARISON_FILE, "write it again with `epagcl compare --save`"):
                whole_methods.section(comparison, results)
        raise


def read_comparison_beside(results: Path) -> Comparison | None:
    """Return the comparison over many graphs in ``comparison.json`` beside the folder of results, if there is one."""
    path = results.parent / COMPARISON_FILE
    return read_comparison(path) if path.is_file() else None


def page_text(results: dict[str, Result], comparison: Comparison | None = None) -> str:
    """Return the page as Markdown."""
    parts = [HEAD, first_page(results, comparison), "## In short\n\n" + markdown(verdicts(results))]
    for name in ARTEFACTS:
        if name == TUNED and comparison is not None:  # the same methods before they are tuned
            parts.append(whole_methods.section(comparison, results))
        if name in results:
            parts.append(_section(find_artefact(name), results[name]))
    if missing := [name for name in ARTEFACTS if name not in results]:
        parts.append("## Not measured\n\n" + wrap(", ".join(f"`epagcl paper {name}`" for name in missing)) + "\n")
    return "\n".join(filter(None, parts))


def _section(artefact: Artefact, result: Result) -> str:
    entry = ARTEFACTS[artefact.name]
    lines = [f"## {artefact.title}", "", wrap(f"{entry.source}: {entry.summary}."), ""]
    lines += [wrap(paragraph, bullet="- ") for paragraph in artefact.reading(result)]
    for slug in artefact.figures(result):
        path = (FIGURES / artefact.stem(slug)).as_posix()
        caption = artefact.captions.get(slug)
        lines += ["", f"[![{caption or artefact.title + (f', {slug}' if slug else '')}]({path}.png)]({path}.svg)"]
        lines += ["", wrap(f"*{caption}.*")] if caption else []
    for table in artefact.tables(result):
        lines += ["", markdown(table).rstrip("\n")]
    requested = [name.lower() for name in result["asked"]["datasets"]]
    if missing := [name for name in artefact.datasets if name.lower() not in requested]:
        lines += ["", wrap(f"Measured by default, but not here: {', '.join(missing)}.")]
    origin = (
        f"Command: `{result['command']}`. Measured on {' and '.join(hardware_of(result))}, assembled on "
        f"{result['date'][:10]} at commit {short_commit(result['commit'])}."
    )
    return "\n".join([*lines, "", wrap(origin), ""])


def hardware_of(result: Result) -> list[str]:
    """Return the devices that the runs of a result were computed on; without runs, the device of the result."""
    if "measured_on" in result:
        return list(result["measured_on"])
    devices = set(_devices([result.get(key) for key in ("cells", "rows", "graphs")]))
    return sorted(devices) or [result["hardware"]["device"]]


def _devices(part: Any) -> Iterator[str]:
    """Yield every device named in a part of a result, except those in settings."""
    if isinstance(part, list):
        for item in part:
            yield from _devices(item)
    elif isinstance(part, dict):
        device = part.get("hardware", part.get("device"))
        if isinstance(device, str):
            yield device
        elif isinstance(device, list):
            yield from device
        for name, item in part.items():
            if name != "settings":
                yield from _devices(item)


def write_page(results: Path, docs: Path) -> Path:
    """Write ``results.md`` and its figures, remove figures of earlier results, and return the path of the page.

    Other files in the folder of the figures are left alone.
    """
    by_name, comparison = read_results(results), read_comparison_beside(results)
    path = docs / "results.md"
    with naming_damaged(results, by_name, comparison):
        text = page_text(by_name, comparison)
        docs.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        drawn = set()
        if comparison is not None:
            for name, figure in first_page_figures(comparison).items():
                drawn |= set(save(figure, docs / FIGURES / name, digest(dict(comparison))))
        for name, result in by_name.items():
            drawn |= set(find_artefact(name).draw(result, docs / FIGURES))
    for file in set((docs / FIGURES).iterdir()) - drawn if drawn else ():
        if was_drawn(file):
            file.unlink()
    return path
