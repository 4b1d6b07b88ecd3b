"""Options shared by commands, and functions that turn options into settings and methods."""

import contextlib
import difflib
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
import typer.core

from epagcl.cli.completion import complete_graphs, complete_maps, complete_methods, with_settings
from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.core.termination import advice
from epagcl.core.torchrun import launched_ranks

if TYPE_CHECKING:
    from epagcl.cli.progress import TrainingProgress
    from epagcl.methods.base import Method

Graph = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME|FILE]",
        help="A named graph, a .npz, .pt, .graphml, .gexf, .gml or .json file, or a folder of `epagcl ingest`.",
        autocompletion=complete_graphs,
    ),
]
Edges = Annotated[Path | None, typer.Option(help="Edge list: .csv, .tsv, .txt or .parquet, with ids of any type.")]
Features = Annotated[
    Path | None,
    typer.Option(
        help="Features: .npy, .npz, or a table with ids; its columns may be of any kind, with gaps. "
        "structure: computed from the edges; structure,FILE: beside those of a file."
    ),
]
Labels = Annotated[Path | None, typer.Option(help="Labels: a table (id, label), or .npy in row order.")]
Nodes = Annotated[Path | None, typer.Option(help="Ids of the feature rows, if the features have none.")]
Root = Annotated[
    Path | None, typer.Option("--data", help="Folder of named graphs. Default: EPAGCL_DATA, or the cache.")
]
MethodName = Annotated[
    str | None,
    typer.Option(
        "--method",
        "-m",
        help="The method; see `epagcl methods`; auto: chosen for the graph. Default: epagcl+ for your own graph and "
        "demo; epagcl, with its recipe, for other named graphs.",
        autocompletion=complete_methods,
    ),
]
Config = Annotated[Path | None, typer.Option(help="TOML file with a [method] table, such as a run's config.toml.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")]
Map = Annotated[str, typer.Option("--map", help="Map: auto, tsne, umap, pca or none.", autocompletion=complete_maps)]
Columns = Annotated[Path | None, typer.Option(help="Table (id, ...) of columns to colour the map by.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Vectors = Annotated[
    bool,
    typer.Option("--vectors", help="One column of vectors, for vector databases, in place of z0, z1, ... (.parquet)."),
]
Embeddings = Annotated[
    Path,
    typer.Argument(metavar="Z", help="Embeddings: .npy, .csv, .tsv or .parquet of `epagcl embed`, or a run folder."),
]
IdColumn = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Column of the labels with the ids.")]
LabelColumn = Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="Column of the labels to use.")]
TableOut = Annotated[Path | None, typer.Option("--out", help="Output table: .csv, .tsv or .parquet.")]

#: The default method. It has one setting for all graphs.
DEFAULT_METHOD = "epagcl+"
#: The default method of named graphs other than the demo: the paper's, with the recipe of the graph.
NAMED_GRAPH_METHOD = "epagcl"
#: Options that earlier versions had under another name.
RENAMED_FLAGS = {"--scale-features": "--feature-scaling"}
#: Arguments that errors of the library may name, and their options.
OPTION_OF_ARGUMENT = {
    "columns": "--columns",
    "deterministic": "--deterministic",
    "folder": "--out",
    "k": "--k",
    "kind": "--map",
    "memory": "--memory",
    "model": "--model",
    "out": "--out",
    "overwrite": "--overwrite",
    "projector": "--projector",
    "resume": "--resume",
    "root": "--data",
    "save": "--save",
    "vectors": "--vectors",
}
#: Arguments of the functions behind ``neighbours``, ``cluster``, ``anomalies`` and others, which options are named for.
OPTIONS_OF_TASKS = ("density", "index", "k", "method", "metric", "min_size")
#: Arguments of the search behind ``tune``, which options are named for.
OPTIONS_OF_TUNE = ("minutes", "protocol", "ratios", "seeds", "trials")


class WithSettings(typer.core.TyperCommand):
    """A command that accepts the settings of any method as options: ``--p-add 0.1``.

    Unknown options are stored in the context, each with its value; :func:`options_of` reads them.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # ctx: typer's own copy of click.Context
        """Take out the settings and parse the rest."""
        parameters = self.params
        own_flags = {
            "--help",
            *(flag for parameter in parameters for flag in parameter.opts + parameter.secondary_opts),
        }
        rest, settings = [], ctx.meta.setdefault("settings", [])
        words = iter(args)
        for word in words:
            flag, equals, value = word.partition("=")
            if not word.startswith("--") or flag in own_flags:
                rest.append(word)
            else:
                settings.append((flag, value if equals else next(words, None)))
        return super().parse_args(ctx, rest)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete the settings too."""
        return with_settings(super().shell_complete(ctx, incomplete), incomplete)


class WithLists(WithSettings):
    """A command with options that take several words: ``--datasets cora citeseer``.

    Attributes:
        list_options: each such option with a function that returns whether a word may follow it. Other words end the
            list.
    """

    list_options: ClassVar[dict[str, Callable[[str], bool]]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each word of its list, then parse."""
        words: list[str] = []
        option: str | None = None
        for word in args:
            if option is not None and not word.startswith("-") and self.list_options[option](word):
                words += [word] if words[-1] == option else [option, word]
            else:
                option = word if word in self.list_options else None
                words.append(word)
        return super().parse_args(ctx, words)


def is_graph_path(graph: str) -> bool:
    """Return whether a graph on the command line is a file or a graph on disk; otherwise it is the name of a graph."""
    if Path(graph, "manifest.json").is_file() or Path(graph, "ingest").is_dir():
        return True
    return Path(graph).suffix in (".npz", ".pt", ".graphml", ".gexf", ".gml", ".json") or Path(graph).is_file()


def method_of(method: str | None, config: Path | None, graph: str | None = None) -> str:
    """Return the method of a command: the given one, else that of the configuration file, else the default.

    Args:
        method: value of ``--method``.
        config: value of ``--config``.
        graph: a graph on the command line whose recipe is the default if it is a named graph.
    """
    if method is not None:
        return method
    if config is not None and "name" in (table := _method_table(config)):
        return str(table["name"])
    named = graph is not None and not is_graph_path(graph) and graph.lower() != "demo"
    return NAMED_GRAPH_METHOD if named else DEFAULT_METHOD


def _method_table(config: Path) -> dict[str, Any]:
    """Return the [method] table of a configuration file."""
    from epagcl.core.config import read_config

    table = read_config(config).get("method")
    if not isinstance(table, dict):
        raise InputError(f"{config}: no [method] table; give one with settings, such as a run's config.toml")
    return table


def settings_of(context: typer.Context, graph: str | None, method: str, config: Path | None) -> dict[str, Any]:
    """Return the settings of a method. Raise if one is unknown or wrong.

    The recipe of the named ``graph`` has the lowest precedence, then the configuration file, then the command line.
    """
    from epagcl.core.config import current_settings
    from epagcl.methods import method as method_class
    from epagcl.methods.recipes import recipe

    cls = method_class(method)
    settings = recipe(graph, cls.name) if graph is not None else {}
    source = settings.pop("source", None)
    if config is not None:
        table = _method_table(config)
        if table.get("name", cls.name) != cls.name:
            raise InputError(f"{config}: is for {table['name']}; give --method {table['name']}")
        settings |= current_settings(table)
    settings |= options_of(context, method)
    settings.pop("name", None)
    make_method(method, settings)  # raises if a setting is wrong, before the log mentions the recipe
    if source is not None:
        log.info("recipe for %s: %s settings", graph, {"paper": "published", "ours": "our"}[source])
    return settings


def options_of(context: typer.Context, *methods: str) -> dict[str, Any]:
    """Return the settings on the command line as values. Raise unless each belongs to one of the methods."""
    from epagcl.core.config import current_value
    from epagcl.methods import method as method_class

    fields = {flag_of(field.name): field for method in methods for field in method_class(method).setting_fields()}
    values: dict[str, Any] = {}
    for word, text in context.meta["settings"]:
        flag = RENAMED_FLAGS.get(word, word)
        field = fields.get(flag.replace("_", "-"))
        if field is None:
            flags = [*fields, *(option for parameter in context.command.params for option in parameter.opts)]
            close = difflib.get_close_matches(flag, flags, n=1)
            hint = f"did you mean {close[0]}?" if close else f"`epagcl methods {methods[0]}` lists the settings"
            raise InputError(f"no option {flag}; {hint}")
        if text is None:
            raise InputError(f"{flag} needs a value")
        values[field.name] = current_value(field.name, _parsed(flag, text, field.type))
    return values


def flag_of(setting: str) -> str:
    """Return the option of a setting: its name with hyphens."""
    return f"--{setting.replace('_', '-')}"


def _parsed(flag: str, text: str, kind: Any) -> Any:
    """Return the text of an option as its type."""
    from epagcl.methods.settings import TYPE_WORDS

    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        return kind(text)
    except (ValueError, KeyError):
        raise InputError(f"{flag} {text}: must be {TYPE_WORDS[kind]}") from None


def make_method(name: str, settings: dict[str, Any]) -> "Method":
    """Return a method with some settings. Raise if it does not have one of them."""
    from epagcl.methods import method

    cls = method(name)
    unknown = set(settings) - {field.name for field in cls.setting_fields()}
    if unknown:
        raise InputError(f"{cls.name} has no setting {min(unknown)!r}; `epagcl methods {cls.name}` lists them")
    return cls(**settings)


def names_in(text: str) -> list[str]:
    """Return the names in a list with commas, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def check_map(kind: str) -> None:
    """Raise unless the report can draw a map of this kind."""
    from epagcl.report.maps import KINDS, check_kind

    if kind not in KINDS:
        raise InputError(f"--map {kind}: choose one of {', '.join(KINDS)}")
    check_kind(kind)  # raises if its package is missing


def refuse_seed(context: typer.Context, seeds_option: str) -> None:
    """Raise if ``--seed`` is given to a command that counts its seeds from 0."""
    if any(flag == "--seed" for flag, _ in context.meta["settings"]):
        raise InputError(f"no option --seed; models have the seeds 0, 1, ... up to {seeds_option}")


def with_option_names(message: str) -> str:
    """Return an error of the library with options in place of Python arguments: ``folder=`` becomes ``--out``.

    Arguments with a value, such as ``lr=0.1``, stay, except for switches (``resume=True`` becomes ``--resume``) and
    for those of tasks and of ``tune``: ``metric='foo':`` becomes ``--metric foo:``.
    """
    argument = rf"(?<![\w.-])({'|'.join(OPTION_OF_ARGUMENT)})=(?:True\b|(?=[\s,;:.)]|$))"
    task = rf"^({'|'.join((*OPTIONS_OF_TASKS, *OPTIONS_OF_TUNE))})=(?:\(([^:;)]*)\)|'([^']*)'|([^:;'(]*)):"
    message = re.sub(task, _option_with_value, message)
    return re.sub(argument, lambda match: OPTION_OF_ARGUMENT[match[1]], message)


def _option_with_value(match: re.Match[str]) -> str:
    """Return an argument and its value, of which one group has it, as an option: ``ratios=(1, 2):`` as written."""
    name, *values = match.groups()
    value = next(value for value in values if value is not None)
    return f"--{name.replace('_', '-')} {value.replace(', ', ',')}:"


#: The exit code that shells give to Ctrl-C.
INTERRUPTED = 130


@contextlib.contextmanager
def interruptible(what_now: str, progress: "TrainingProgress | None" = None) -> Iterator[None]:
    """On Ctrl-C and SIGTERM, end in one line, below the progress: what is left, and how to continue."""
    try:
        with advice(what_now):
            yield
    except KeyboardInterrupt:
        if progress is not None:
            progress.stop()
        print(f"epagcl: interrupted; {what_now}", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None  # Typer would end the program without a word


def resume_line() -> str:
    """Return the command that continues this run."""
    words = [word for word in sys.argv[1:] if word not in ("--overwrite", "--resume")]
    return f"to continue: epagcl {shlex.join(words)} --resume"


def check_ranks(model: "Method") -> None:
    """Raise if torchrun has started several processes, and the method or its subgraphs run on one."""
    if launched_ranks() > 1 and not type(model).runs_on_ranks:
        raise InputError(f"{model.name} runs on one rank; start it without torchrun, or choose another --method")
    subgraphs = model.get_params().get("subgraphs", "off")
    if launched_ranks() > 1 and subgraphs not in ("auto", "off"):
        raise InputError(f"--subgraphs {subgraphs}: for one rank; start the command without torchrun, or leave it out")
