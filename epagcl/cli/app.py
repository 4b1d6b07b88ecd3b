"""The program ``epagcl``: one subcommand per file. Large libraries are imported when a command needs them."""

import logging
import sys
from typing import Annotated, Any

import typer
import typer.core

from epagcl.cli.anomalies import anomalies
from epagcl.cli.classify import classify
from epagcl.cli.cluster import cluster
from epagcl.cli.compare import compare
from epagcl.cli.datasets import datasets
from epagcl.cli.doctor import doctor
from epagcl.cli.embed import embed
from epagcl.cli.epr import epr
from epagcl.cli.ingest import ingest
from epagcl.cli.links import links
from epagcl.cli.methods import methods
from epagcl.cli.neighbours import neighbours
from epagcl.cli.options import INTERRUPTED, WithSettings, with_option_names
from epagcl.cli.paper import app as paper
from epagcl.cli.paper_study import StudyCommand, complete
from epagcl.cli.paper_study import plan as paper_plan
from epagcl.cli.plan import plan
from epagcl.cli.report import export, report
from epagcl.cli.reproduce import reproduce
from epagcl.cli.train import train
from epagcl.cli.tune import TuneCommand, tune
from epagcl.core.errors import InputError, MissingExtra, TrainingError
from epagcl.core.formatting import one_line
from epagcl.core.log import log
from epagcl.core.torchrun import launched_rank, launched_ranks, local_rank
from epagcl.core.version import __version__

# Typer builds on click, either the package or (since 0.2x) its own copy. This is the class of usage errors in both.
UsageError: Any = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="epagcl",
    help="Node embeddings without labels, by graph contrastive learning with EPAGCL+ and other methods.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
paper.command("plan", cls=StudyCommand)(paper_plan)
paper.command(cls=StudyCommand)(complete)
app.add_typer(paper, name="paper")
ON_RANKS = ("train", "embed")  # the commands that several ranks share
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
    elif launched_ranks() > 1 and context.invoked_subcommand not in ON_RANKS:
        raise InputError(f"epagcl {context.invoked_subcommand} runs on one rank; start it without torchrun")


app.command(cls=WithSettings, epilog=SETTINGS_HELP)(train)
app.command(cls=WithSettings, epilog=SETTINGS_HELP)(embed)
app.command(cls=WithSettings, epilog=SETTINGS_HELP)(plan)
app.command()(report)
app.command()(export)
app.command()(reproduce)
app.command(
    cls=WithSettings,
    epilog="Settings of the methods are options too: --epochs 50. Methods without the setting ignore it.",
)(compare)
app.command(cls=TuneCommand, epilog=SETTINGS_HELP)(tune)
app.command()(neighbours)
app.command()(cluster)
app.command()(classify)
app.command()(anomalies)
app.command(cls=WithSettings, epilog=SETTINGS_HELP)(links)
app.command()(epr)
app.command()(ingest)
app.command()(datasets)
app.command()(methods)
app.command()(doctor)


def main() -> None:
    """Run the command line. A user's mistake ends in one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an encoding without Greek letters shows ? instead
            stream.reconfigure(errors="replace")
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    log.setLevel(logging.INFO)
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # of Typer after Ctrl-C, without a word; older ones raise Abort
            code = _fail("interrupted", INTERRUPTED)
    except (InputError, MissingExtra) as error:
        code = _fail(with_option_names(str(error)), 2)
    except UsageError as error:
        code = _fail(f"{error.format_message()} (see {error.ctx.command_path if error.ctx else 'epagcl'} --help)", 2)
    except TrainingError as error:
        code = _fail(str(error), 1)
    except OSError as error:  # such as a full disk, or a file that was removed
        code = _fail(f"{error.filename or 'file'}: {error.strerror or error}", 2)
    except (KeyboardInterrupt, typer.Abort):
        code = _fail("interrupted", INTERRUPTED)
    except (MemoryError, RuntimeError) as error:
        from epagcl.core.memory import is_too_large

        if not is_too_large(error):
            raise
        code = _fail(f"out of memory ({one_line(error, 200)}); use a larger machine, or a smaller graph", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> int:
    if launched_rank() > 0 and local_rank() > 0 and code == 2:
        return code  # the same mistake on every rank: one line per machine is enough
    print(f"epagcl: {one_line(message)}", file=sys.stderr)
    return code
