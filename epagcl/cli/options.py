"""From the words of the command line to the library: graphs, settings and methods."""

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from epagcl.core.errors import InputError
from epagcl.core.log import log

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from epagcl.cli.progress import Line
    from epagcl.methods.base import Method


# What several commands take.
Graph = Annotated[str | None, typer.Argument(metavar="[NAME|FILE]", help="A named graph, or a .npz or .pt file.")]
Edges = Annotated[Path | None, typer.Option(help="Edge list: .csv, .tsv, .txt, .parquet; any ids.")]
Features = Annotated[Path | None, typer.Option(help="Features: .npy, .npz, or a table with an id column.")]
Labels = Annotated[Path | None, typer.Option(help="Labels: a table (id, label), or .npy in row order.")]
Nodes = Annotated[Path | None, typer.Option(help="Ids of the feature rows, where the features have none.")]
Root = Annotated[Path | None, typer.Option("--data", help="Folder of named graphs; else EPAGCL_DATA, else the cache.")]
MethodName = Annotated[str, typer.Option("--method", "-m", help="Which method; see `epagcl methods`.")]
Config = Annotated[Path | None, typer.Option(help="TOML file with a [method] table, such as a run's config.toml.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Map = Annotated[str, typer.Option("--map", help="The report's map: auto, tsne, umap, pca or none.")]
Columns = Annotated[Path | None, typer.Option(help="Table (id, ...) of columns to colour the map by.")]
AsJson = Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")]


#: Options that earlier versions had under another name.
RENAMED_FLAGS = {"--scale-features": "--feature-scaling"}


class WithSettings(typer.core.TyperCommand):
    """A command that takes every setting of a method as an option, whichever the method is: ``--p-add 0.1``.

    What it does not know it lays aside in the context, each with its value; :func:`options_of` reads them later.
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        """Take out the settings, then parse the rest."""
        known = {
            "--help",
            *(option for parameter in self.params for option in parameter.opts + parameter.secondary_opts),
        }
        rest, settings = [], ctx.meta.setdefault("settings", [])
        words = iter(args)
        for word in words:
            flag, equals, value = word.partition("=")
            if not word.startswith("--") or flag in known:
                rest.append(word)
            else:
                settings.append((flag, value if equals else next(words, None)))
        return super().parse_args(ctx, rest)


def graph_of(
    name: str | None, root: Path | None, *, need_features: bool = True, **files: Path | None
) -> "tuple[str, Data, dict[str, Any]]":
    """The graph, what to call it, and where it came from."""
    from epagcl.data import load, read_graph

    given = {key: value for key, value in files.items() if value is not None}
    if name is None and not given:
        files = "--edges and --features" if need_features else "--edges and --labels"
        raise InputError(f"no graph given; name one (`epagcl datasets` lists them), or give a file, or {files}")
    if name is None:
        source = {key: str(value) for key, value in given.items()}
        return given.get("edges", Path("graph")).stem, read_graph(**given, need_features=need_features), source
    if Path(name).suffix in (".npz", ".pt") or Path(name).is_file():
        return Path(name).stem, read_graph(name, **given, need_features=need_features), {"file": name}
    if given:
        raise InputError(f"{name} is a named graph; leave out {', '.join(f'--{key}' for key in given)}")
    data = load(name, root, features=need_features)
    return data.name, data, {}


def settings_of(context: typer.Context, graph: str | None, method: str, config: Path | None) -> dict[str, Any]:
    """The settings by rising rank: the named graph's recipe, the configuration file, the command line."""
    from epagcl.core.config import current_settings, read_config
    from epagcl.methods import method as method_class
    from epagcl.methods.recipes import recipe

    cls = method_class(method)
    settings = recipe(graph, cls.name) if graph is not None else {}
    origin = settings.pop("source", None)
    if config is not None:
        file = read_config(config)
        if not isinstance(file.get("method"), dict):
            raise InputError(f"{config}: no [method] table; give one with settings, such as a run's config.toml")
        if file["method"].get("name", cls.name) != cls.name:
            raise InputError(f"{config}: is for {file['method']['name']}; give --method {file['method']['name']}")
        settings |= current_settings(file["method"])
    settings |= options_of(context, method)
    settings.pop("name", None)
    make_method(method, settings)  # what is wrong with them is said before anything else
    if origin is not None:
        log.info("recipe for %s: %s settings", graph, {"paper": "published", "ours": "our"}[origin])
    return settings


def options_of(context: typer.Context, *methods: str) -> dict[str, Any]:
    """The settings that :class:`WithSettings` laid aside, as values; each must be one of some method's."""
    import difflib

    from epagcl.methods import method as method_class

    fields = {flag_of(field.name): field for method in methods for field in method_class(method).setting_fields()}
    values: dict[str, Any] = {}
    for given, text in context.meta["settings"]:
        flag = RENAMED_FLAGS.get(given, given)
        if flag.replace("_", "-") not in fields:
            known = list(fields)
            known += [option for parameter in context.command.params for option in parameter.opts]
            close = difflib.get_close_matches(flag, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"`epagcl methods {methods[0]}` lists the settings"
            raise InputError(f"no option {flag}; {hint}")
        if text is None:
            raise InputError(f"{flag} needs a value")
        field = fields[flag.replace("_", "-")]
        values[field.name] = _parse(flag, text, field.type)
    return values


def flag_of(setting: str) -> str:
    """Return the option of a setting: its name with hyphens."""
    return f"--{setting.replace('_', '-')}"


def _parse(flag: str, text: str, kind: type) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (ValueError, KeyError):
        from epagcl.methods.base import TYPE_WORDS

        raise InputError(f"{flag} {text}: must be {TYPE_WORDS[kind]}") from None


def make_method(name: str, settings: dict[str, Any]) -> "Method":
    """A method with these settings; a setting that it does not have is named."""
    from epagcl.methods import method

    cls = method(name)
    unknown = set(settings) - {field.name for field in cls.setting_fields()}
    if unknown:
        raise InputError(f"{cls.name} has no setting {sorted(unknown)[0]!r}; `epagcl methods {cls.name}` lists them")
    return cls(**settings)


@contextlib.contextmanager
def interruptible(what_now: str, line: "Line | None" = None) -> Iterator[None]:
    """Ctrl-C ends in a line that says what is left and how to go on, below the progress ``line``."""
    try:
        yield
    except KeyboardInterrupt:
        if line is not None:
            line.stop()
        print(f"stopped; {what_now}", file=sys.stderr)
        raise


def resume_line() -> str:
    """The command that continues this run."""
    words = [word for word in sys.argv[1:] if word not in ("--overwrite", "--resume")]
    return f"to continue: epagcl {shlex.join(words)} --resume"
