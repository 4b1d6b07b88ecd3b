"""``epagcl report`` and ``epagcl export``: pages and files of finished runs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from epagcl.cli.options import AsJson, Columns, Quiet, Vectors, check_map, interruptible
from epagcl.cli.progress import busy, console_for
from epagcl.cli.rendering import show


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output page. Default: report.html in the run folder; for several runs, in the working folder."
        ),
    ] = None,
    map_: Annotated[
        str | None, typer.Option("--map", help="New map: tsne, umap, pca or none. Default: the map of the run.")
    ] = None,
    columns: Columns = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the report of a run again, or one page that compares several runs.

    Example: epagcl report runs/cora-epagcl runs/cora-grace --out compare.html
    """
    console = console_for(quiet)
    with busy(console, "starting"):
        from epagcl.report.files import write_comparison

        if map_ is not None:
            check_map(map_)
    with interruptible("nothing was written"), busy(console, "making the report"):
        page = write_comparison(runs, out, kind=map_, columns=columns, title=title)
    if as_json:
        print(json.dumps({"report": str(page)}))
    elif not quiet:
        show(f"report: {page}")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    out: Annotated[
        Path | None, typer.Option(help="Output file: .npy (with a file of ids), .csv, .tsv or .parquet.")
    ] = None,
    columns: Annotated[bool, typer.Option("--columns", help="Also write the columns of the run's nodes.csv.")] = False,
    vectors: Vectors = False,
    projector: Annotated[Path | None, typer.Option(help="Folder for the files of the Embedding Projector.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the embeddings of a finished run in another format, or for the Embedding Projector.

    Example: epagcl export runs/cora-epagcl --out z.parquet --columns
    """
    from epagcl.runs.export import export_run

    files = [str(path) for path in export_run(run, out, projector, columns, vectors=vectors)]
    print(json.dumps({"files": files}, indent=2) if as_json else "written: " + ", ".join(files))
