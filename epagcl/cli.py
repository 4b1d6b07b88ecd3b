"""The command line: subcommands, each a thin call into the library. Heavy imports wait until a command needs them."""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer
import typer.core

from epagcl import __version__
from epagcl.errors import InputError, MissingExtra, TrainingError
from epagcl.options import (
    AsJson,
    Columns,
    Config,
    Edges,
    Features,
    Graph,
    Labels,
    Map,
    MethodName,
    Nodes,
    Quiet,
    Root,
    WithSettings,
    flag_of,
    graph_of,
    interruptible,
    make_method,
    options_of,
    resume_line,
    settings_of,
)
from epagcl.paper.commands import app as paper
from epagcl.report.commands import export, report
from epagcl.terminal import (
    Line,
    Work,
    busy,
    console_for,
    show,
    show_comparison,
    show_embedding,
    show_epr,
    show_metrics,
    table,
)
from epagcl.tuning.command import WithSpace, tune

# Typer builds on click, as a package or (since 0.2x) as its own copy; this is the class of usage errors in both.
UsageError = typer.BadParameter.__bases__[0]

log = logging.getLogger("epagcl")
app = typer.Typer(
    name="epagcl",
    help="Label-free node embeddings by graph contrastive learning, with edges added and dropped by their EPR.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(paper, name="paper")
SETTINGS_HELP = "Every setting of the method is an option too: --epochs 200 --p-add 0.1 (see `epagcl methods NAME`)."


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        print(f"epagcl {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command(cls=WithSettings, epilog=SETTINGS_HELP)
def train(
    context: typer.Context,
    graph: Graph = None,
    edges: Edges = None,
    features: Features = None,
    labels: Labels = None,
    nodes: Nodes = None,
    data: Root = None,
    method: MethodName = "epagcl",
    config: Config = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; else runs/<graph>-<method>.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in that folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in that folder.")] = False,
    seeds: Annotated[int, typer.Option(help="Train this many seeds, counting up from --seed.")] = 1,
    runs: Annotated[int, typer.Option(help="Random splits to evaluate on (several seeds: one split each).")] = 5,
    protocol: Annotated[str, typer.Option(help="Evaluation: strict, paper or public.")] = "strict",
    references: Annotated[bool, typer.Option(help="Also score raw features and the untrained encoder.")] = False,
    map_: Map = "auto",
    logger: Annotated[str | None, typer.Option("--log", help="Also log to tensorboard or wandb.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train on a graph, evaluate where it has labels, and write a run folder with a report.

    Example: epagcl train cora --epochs 200 --references
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.evaluation import PROTOCOLS
        from epagcl.hardware import resolve_device
        from epagcl.loggers import check_logger
        from epagcl.report.maps import check_kind
        from epagcl.runs import Plan, claim, run, run_seeds, unfit_labels

    if protocol not in PROTOCOLS:
        raise InputError(f"--protocol {protocol}: choose one of {', '.join(PROTOCOLS)}")
    if seeds < 1 or runs < 1:
        raise InputError("--seeds and --runs must be at least 1")
    check_kind(map_)
    if logger is not None:
        check_logger(logger)
    options_of(context, method)  # a mistyped option ends here, not after a download
    with busy(console, "reading the graph"):
        name, graph_data, source = graph_of(graph, data, edges=edges, features=features, labels=labels, nodes=nodes)
    settings = settings_of(context, None if source else name, method, config)
    models = [make_method(method, {**settings, "seed": settings.get("seed", 0) + k}) for k in range(seeds)]
    resolve_device(models[0].device)
    plan: Plan | None = Plan(protocol, runs, references)
    if models[0].supervised:
        if graph_data.y is None:
            raise InputError(f"{name}: {method} learns from labels, and the graph has none; give --labels")
        log.info("%s is trained for one split: --seeds 5 for the spread over several", models[0].title)
    if reason := unfit_labels(graph_data, plan):
        if protocol == "public" or models[0].supervised:
            raise InputError(reason)
        log.warning("%s: not evaluated (%s)", name, reason)
        plan = None
    folder = out or Path("runs") / f"{name}-{models[0].name}".lower()
    claim(folder, resume=resume, overwrite=overwrite, seeds=seeds)
    shared = {"name": name, "source": source, "map_kind": map_}
    lines = [Line(console, model, logger, folder if seeds == 1 else folder / f"seed-{model.seed}") for model in models]
    with interruptible(resume_line()):
        if seeds == 1:
            with lines[0] as line:
                metrics = run(graph_data, models[0], folder, plan=plan, callback=line, say=line.say, **shared)
        else:
            metrics = run_seeds(graph_data, models, folder, plan=plan, progress=lines, **shared)
    if as_json:
        print(json.dumps({**metrics, "folder": str(folder)}, indent=2))
    elif not quiet:
        show_metrics(metrics, folder, type(models[0]).title)


@app.command(cls=WithSettings, epilog=SETTINGS_HELP)
def embed(
    context: typer.Context,
    graph: Graph = None,
    edges: Edges = None,
    features: Features = None,
    nodes: Nodes = None,
    out: Annotated[Path, typer.Option(help="Where to: .npy (ids beside it), .csv, .tsv or .parquet.")] = Path("z.npy"),
    model: Annotated[Path | None, typer.Option(help="Folder of a trained model to use; nothing is trained.")] = None,
    save: Annotated[Path | None, typer.Option(help="Folder to keep the trained model in.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in that folder.")] = False,
    data: Root = None,
    method: MethodName = "epagcl",
    config: Config = None,
    map_: Map = "auto",
    columns: Columns = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Embed the nodes of a graph: train on it without labels, or use a trained model; write embeddings and a report.

    Example: epagcl embed --edges e.csv --features f.npy --out z.npy
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.data.writers import check_output, write_embeddings
        from epagcl.hardware import resolve_device
        from epagcl.methods import load_model
        from epagcl.report.files import check_columns, read_columns, write_embedding_report
        from epagcl.report.maps import check_kind
        from epagcl.runs import claim, trained_metrics

    check_output(out)
    check_kind(map_)
    options_of(context, method)
    if model is not None and (save is not None or config is not None):
        raise InputError("--model is trained already; leave out --save and --config")
    with busy(console, "reading the graph"):
        name, graph_data, source = graph_of(graph, data, edges=edges, features=features, nodes=nodes)
        extra = None if columns is None else read_columns(columns)
        if extra is not None:
            check_columns(extra, graph_data.get("node_ids", range(graph_data.num_nodes)), name)
    settings = settings_of(context, None if source or model else name, method, config)
    if model is not None:
        if any(flag != "--device" for flag, _ in context.meta["settings"]):
            raise InputError("--model is trained already; leave out its settings (only --device can be given)")
        trained = load_model(model, settings.get("device", "auto"))
    else:
        trained = make_method(method, settings)
        if trained.supervised:
            raise InputError(f"{method} learns from labels: train it with `epagcl train`, then embed with --model")
        resolve_device(trained.device)
        if save is not None:
            claim(save, overwrite=overwrite, option="--save", make=False)
    with Line(console, trained) as line:
        with interruptible("nothing was written (`epagcl train` keeps checkpoints)", line):
            if model is None:
                trained.fit(graph_data, callback=line)
                if save is not None:
                    claim(save, overwrite=overwrite, option="--save")
                    trained.save(save)
            line.say("embedding")
            z = trained.embed(graph_data)
        written = write_embeddings(z, graph_data.get("node_ids"), out)
        with interruptible("the embeddings are written, the report is not", line):
            metrics = trained_metrics(graph_data, trained, name)
            page = write_embedding_report(out, graph_data, trained, z, metrics, kind=map_, extra=extra, say=line.say)
    result = {
        "nodes": z.shape[0],
        "dim": z.shape[1],
        "health": metrics["health"],
        "files": [str(path) for path in written],
        "model": None if save is None else str(save),
        "report": None if page is None else str(page),
    }
    if as_json:
        print(json.dumps(result, indent=2))
    elif not quiet:
        show_embedding(result)


app.command()(report)
app.command()(export)


@app.command(cls=WithSettings, epilog="Settings that several methods share can be given too: --epochs 50.")
def compare(
    context: typer.Context,
    graphs: Annotated[list[str], typer.Argument(metavar="NAME|FILE...", help="Graphs with labels.")],
    methods: Annotated[str, typer.Option(help="With commas; * = no feature masks: grace,gca*. Else all.")] = "",
    seeds: Annotated[int, typer.Option(help="Models of each method; seed k is scored on split k.")] = 5,
    protocols: Annotated[str, typer.Option(help="Of strict, paper, public, with commas.")] = "strict,paper",
    data: Root = None,
    out: Annotated[Path, typer.Option(help="Folder of results; what is there already is not trained again.")] = Path(
        "runs/compare"
    ),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train several methods on the same graphs and splits, and print them beside raw features and published figures.

    Example: epagcl compare cora citeseer --methods epagcl,grace,gca --seeds 5
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.comparison import cells, collect, fill, protocols_of, rows
        from epagcl.evaluation import PROTOCOLS
        from epagcl.runs import Plan, unfit_labels
        from epagcl.store import Store

    wanted = [protocol.strip() for protocol in protocols.split(",") if protocol.strip()]
    if not wanted or set(wanted) - set(PROTOCOLS):
        raise InputError(f"--protocols {protocols}: choose of {', '.join(PROTOCOLS)}")
    if seeds < 1:
        raise InputError("--seeds must be at least 1")
    if any(flag == "--seed" for flag, _ in context.meta["settings"]):
        raise InputError("no option --seed; models have the seeds 0, 1, ... up to --seeds")
    chosen = rows([name.strip() for name in methods.split(",") if name.strip()])
    settings = options_of(context, *(row.method for row in chosen[2:]))
    with busy(console, "reading the graphs"):
        loaded = [graph_of(graph, data) for graph in graphs]
    if len({name.lower() for name, _, _ in loaded}) < len(loaded):
        raise InputError("two graphs of one name; their results would mix: rename one, or compare them apart")
    for name, graph_data, _ in loaded:
        if graph_data.y is None:
            raise InputError(f"{name}: no labels to compare by")
        if not protocols_of(graph_data, wanted):
            raise InputError(f"{name}: no published split; give --protocols strict or paper")
        if reason := unfit_labels(graph_data, Plan("strict")):
            raise InputError(f"{name}: {reason}")
    options = {"seeds": seeds, "protocols": wanted, "settings": settings}
    made = {name: cells(graph_data, name, chosen, named=not source, **options) for name, graph_data, source in loaded}
    store, work = Store(out), Work(console)
    with interruptible("what is finished is kept; the same command goes on"), work:
        fill([cell for row in made.values() for cell in row], store, work)
    results = {name: [collect(cell, store) for cell in row] for name, row in made.items()}
    if as_json:
        print(json.dumps(results, indent=2))
    elif not quiet:
        for name, found in results.items():
            show_comparison(name, found, wanted)


app.command(cls=WithSpace, epilog=SETTINGS_HELP)(tune)


@app.command()
def epr(
    graph: Graph = None,
    edges: Edges = None,
    labels: Labels = None,
    nodes: Nodes = None,
    data: Root = None,
    top: Annotated[int, typer.Option(min=0, help="How many of the most harmful edges to list.")] = 10,
    as_json: AsJson = False,
) -> None:
    """How much of a graph's messages come from another class (EPR), and which edges do the most harm.

    Example: epagcl epr cora
    """
    with busy(console_for(), "reading the graph"):
        from torch_geometric.data import Data

        from epagcl.epr import epr_summary

        name, graph_data, _ = graph_of(graph, data, edges=edges, labels=labels, nodes=nodes, need_features=False)
    if graph_data.y is None:
        raise InputError(f"{name}: no labels; EPR compares the classes of an edge's ends, give --labels")
    ids = graph_data.get("node_ids")
    ids = list(range(graph_data.num_nodes)) if ids is None else list(ids)
    labelled = graph_data.y >= 0
    if not labelled.all():
        log.warning("%s: EPR of the %d labelled nodes of %d", name, int(labelled.sum()), len(ids))
        ids = [node for node, known in zip(ids, labelled.tolist(), strict=True) if known]
        graph_data = Data(edge_index=graph_data.edge_index, y=graph_data.y, num_nodes=graph_data.num_nodes)
        graph_data = graph_data.subgraph(labelled)
    with busy(console_for(), "EPR"):
        summary = epr_summary(graph_data.edge_index, graph_data.y, top=top)
    if as_json:
        result = {"name": name, **summary.to_dict()}
        for edge in result["most_harmful"]:
            edge["ids"] = [str(ids[edge["i"]]), str(ids[edge["j"]])]
        print(json.dumps(result, indent=2))
    else:
        show_epr(name, summary, ids)


@app.command()
def datasets(data: Root = None, as_json: AsJson = False) -> None:
    """The named graphs, their sizes, and where each would come from.

    Example: epagcl datasets --data ~/graphs
    """
    from epagcl.data import datasets as listing

    rows = [vars(row) for row in listing(data)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    listing_table = table("name", ">nodes", ">edges", ">features", ">classes", "from")
    for row in rows:
        sizes = ["–" if row[key] is None else f"{row[key]:,}" for key in ("nodes", "edges", "features", "classes")]
        listing_table.add_row(row["name"], *sizes, row["source"])
    show(listing_table)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to list its settings.")] = None,
    as_json: AsJson = False,
) -> None:
    """The methods, or the settings of one.

    Example: epagcl methods epagcl
    """
    from epagcl.methods import method, names

    if name is None:
        rows = [
            {"name": key, "summary": method(key).summary(), "needs": method(key).needs, "paper": method(key).paper}
            for key in names()
        ]
        shown = table("name", "what it does", "needs", "paper")
        for row in rows:
            shown.add_row(*row.values())
    else:
        rows = [
            {"setting": field.name, "type": field.type.__name__, "default": field.default, **field.metadata}
            for field in method(name).setting_fields()
        ]
        shown = table("setting", "default", "meaning")
        for row in rows:
            shown.add_row(flag_of(row["setting"]), str(row["default"]), row["meaning"])
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        show(shown)


def main() -> None:
    """Run the command line; a user's mistake ends in one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal or pipe without Greek letters shows ? for them
            stream.reconfigure(errors="replace")
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    log.setLevel(logging.INFO)
    try:
        code = app(standalone_mode=False)
    except (InputError, MissingExtra) as error:
        code = _fail(str(error), 2)
    except UsageError as error:
        code = _fail(f"{error.format_message()} (see {error.ctx.command_path if error.ctx else 'epagcl'} --help)", 2)
    except TrainingError as error:
        code = _fail(str(error), 1)
    except OSError as error:  # a full disk, a file taken away
        code = _fail(f"{error.filename or 'file'}: {error.strerror or error}", 2)
    except (KeyboardInterrupt, typer.Abort):
        code = _fail("interrupted", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> int:
    print(f"epagcl: {message}", file=sys.stderr)
    return code
