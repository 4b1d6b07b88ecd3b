"""``python -m benchmarks``: measure, write ``results`` and print the tables.

python -m benchmarks             run the benchmark of this machine: gpu if it has one, else cpu
python -m benchmarks cpu         measure epoch times, memory and pre-processing on the CPU
python -m benchmarks gpu         measure the same on a GPU, and the time, errors and scaling of the loss
python -m benchmarks tune        choose the tile shapes of the loss kernels on this GPU
python -m benchmarks methods     measure time and memory of one epoch of every method
python -m benchmarks health      compare label-free measures with accuracies
python -m benchmarks precision   compare accuracies after training in float32 and in bf16 on a CPU
python -m benchmarks half        compare times and accuracies with fp16 and with float32 activations on a GPU
python -m benchmarks propagated  measure the time of the method without training on a GPU or a CPU
python -m benchmarks plus        train variants of EPAGCL+ and compare their validation accuracies
python -m benchmarks plus-time   measure the time of EPAGCL+, and of an epoch with each encoder, on a GPU or a CPU
python -m benchmarks retention   compare what embeddings keep of features and edges with their accuracies
python -m benchmarks new-nodes   measure time and error of new nodes that are embedded from their neighbourhood
python -m benchmarks drift       compare the shift of old nodes with what an old model loses on a growing graph
python -m benchmarks scale       measure the exact loss and an epoch over several ranks with one CPU core each
python -m benchmarks structure   compare structural features with node2vec and Laplacian eigenvectors
python -m benchmarks encoding    compare encodings of tables: this package's, scikit-learn's and skrub's
python -m benchmarks ingest      compare engines of ingestion, and ingest a generated graph of 100 million edges
python -m benchmarks readme      insert the tables of results/ into README.md and docs, and draw the figures
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from benchmarks import plus, plus_time, tables
from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.files import write_json
from epagcl.core.hardware import resolve_device


def main() -> None:
    """Parse the command line and run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command")
    cpu_parser = commands.add_parser("cpu", help="measure epoch times, memory and pre-processing on the CPU")
    cpu_parser.add_argument("--epochs", type=int, default=10, help="number of timed epochs per implementation")
    gpu_parser = commands.add_parser("gpu", help="measure epoch times, memory, and the loss alone on a GPU")
    gpu_parser.add_argument("--largest", type=int, default=10**9, help="skip graphs with more nodes")
    commands.add_parser("tune", help="choose the tile shapes of the loss kernels on this GPU")
    methods_parser = commands.add_parser("methods", help="measure one epoch of every method on a GPU, time and memory")
    methods_parser.add_argument("--largest", type=int, default=10**9, help="skip graphs with more nodes")
    health_parser = commands.add_parser("health", help="compare label-free measures with accuracies")
    health_parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes")
    health_parser.add_argument("--seconds", type=float, default=1e9, help="time limit of the whole benchmark")
    precision_parser = commands.add_parser(
        "precision", help="compare accuracies after training in fp32 and bf16 on a CPU"
    )
    precision_parser.add_argument("--seconds", type=float, default=600.0, help="time limit of the whole benchmark")
    half_parser = commands.add_parser("half", help="compare fp16 and float32 activations on a GPU")
    half_parser.add_argument("--folder", type=Path, default=Path("runs", "half"), help="store of the runs")
    half_parser.add_argument("--processes", type=int, default=1, help="processes that train at the same time")
    half_parser.add_argument("--minutes", type=float, default=1e6, help="stop training after this time")
    half_parser.add_argument("--train", action="store_true", help="only train what the store lacks, in one process")
    propagated_parser = commands.add_parser("propagated", help="measure the time of the method without training")
    propagated_parser.add_argument("--largest", type=int, default=10**9, help="skip graphs with more nodes")
    propagated_parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    time_parser = commands.add_parser("plus-time", help="measure the time of EPAGCL+, and of an epoch by encoder")
    time_parser.add_argument("--largest", type=int, default=10**9, help="skip graphs with more nodes")
    time_parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    _add_plus(commands.add_parser("plus", help="train variants of EPAGCL+ and compare their validation accuracies"))
    retention_parser = commands.add_parser("retention", help="compare what embeddings keep with their accuracies")
    retention_parser.add_argument("--graphs", nargs="+", metavar="NAME", default=plus.GRAPHS, help="by default 15")
    retention_parser.add_argument("--methods", nargs="+", metavar="NAME", help="by default seven")
    retention_parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    retention_parser.add_argument("--folder", type=Path, default=Path("runs", "retention"), help="one file per graph")
    retention_parser.add_argument("--merge", action="store_true", help="merge the files of the folder into results")
    scale_parser = commands.add_parser("scale", help="measure the exact loss over several ranks with one core each")
    scale_parser.add_argument("--ranks", type=int, nargs="+", metavar="K", default=[1, 2], help="by default 1 and 2")
    scale_parser.add_argument("--nodes", type=int, help="number of nodes, by default 8192; on a GPU, a million")
    scale_parser.add_argument("--device", default="cpu", help="cpu: ranks; cuda: an exact epoch in one process")
    structure_parser = commands.add_parser("structure", help="compare structural features with node2vec")
    structure_parser.add_argument("--node2vec", metavar="PYTHON", help="interpreter of an environment with pecanpy")
    structure_parser.add_argument("--add", action="store_true", help="measure only the widths that the results lack")
    structure_parser.add_argument("--out", type=Path, default=tables.RESULTS, help="folder of the results")
    encoding_parser = commands.add_parser("encoding", help="compare encodings of tables; needs skrub")
    encoding_parser.add_argument("--out", type=Path, default=tables.RESULTS, help="folder of the results")
    new_nodes_parser = commands.add_parser("new-nodes", help="measure time and error of new nodes")
    drift_parser = commands.add_parser("drift", help="measure what an old model loses on a growing graph")
    ingest_parser = commands.add_parser("ingest", help="ingest a generated graph, with its memory over time")
    ingest_parser.add_argument("--edges", type=int, default=100_000_000, help="edges of the graph; 0 leaves it out")
    ingest_parser.add_argument(
        "--engine-edges", type=int, default=10_000_000, help="edges for the comparison of engines"
    )
    ingest_parser.add_argument("--memory", type=float, default=4.0, help="GiB that the ingestion may use")
    ingest_parser.add_argument("--formats", nargs="+", choices=["parquet", "csv"], default=["parquet", "csv"])
    ingest_parser.add_argument("--folder", type=Path, help="where tables and graphs are written; by default temporary")
    ingest_parser.add_argument("--out", type=Path, default=tables.RESULTS, help="folder of the results")
    large_parser = commands.add_parser("large", help="train a million nodes by subgraphs, or as a whole on a GPU")
    large_parser.add_argument("--nodes", type=int, default=1_000_000, help="size of the generated graph")
    large_parser.add_argument("--methods", nargs="+", metavar="NAME", default=["epagcl"], help="epagcl, epagcl+, ...")
    large_parser.add_argument("--device", default="cpu", help="auto, cpu or cuda")
    large_parser.add_argument("--whole", action="store_true", help="train on the whole graph in memory")
    large_parser.add_argument("--steps", type=int, help="training epochs; by default those of the benchmark")
    large_parser.add_argument("--batch-size", type=int, default=0, help="negatives in batches; by default all pairs")
    large_parser.add_argument("--folder", type=Path, help="keep the generated graph here")
    cost_parser = commands.add_parser("cost", help="fit the model of cost and check it on other runs")
    cost_parser.add_argument("--device", default="cpu", help="auto, cpu or cuda")
    cost_parser.add_argument("--refit", action="store_true", help="fit the measurements of the last run again")
    cost_parser.add_argument("--later", action="store_true", help="measure the runs that only check the model")
    commands.add_parser("readme", help="insert the tables into README.md and docs")
    writers = (cpu_parser, gpu_parser, methods_parser, health_parser, precision_parser, propagated_parser, time_parser)
    writers += (half_parser,)
    for command in (*writers, new_nodes_parser, drift_parser, scale_parser, large_parser, cost_parser):
        command.add_argument("--out", type=Path, default=tables.RESULTS, help="folder of the results")
    parser.set_defaults(epochs=10, largest=10**9, out=tables.RESULTS)
    arguments = parser.parse_args()
    try:
        run(arguments)
    except (InputError, MissingExtra) as error:
        sys.exit(f"benchmarks: {error}")


def _add_plus(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``plus``."""
    parser.add_argument("--graphs", nargs="+", metavar="NAME", help="by default all 15 graphs that need no download")
    parser.add_argument("--variants", nargs="+", metavar="NAME", choices=plus.VARIANTS, help="by default all variants")
    parser.add_argument("--seeds", type=int, default=1, help="number of training seeds")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no training after this time")
    parser.add_argument("--out", type=Path, default=Path("runs", "epagcl-plus"), help="folder of one file per graph")
    parser.add_argument(
        "--merge", type=Path, metavar="FOLDER", help="merge the files of a folder into results/evidence"
    )


def run(arguments: argparse.Namespace) -> None:
    """Run the benchmark that the arguments name."""
    if arguments.command == "readme":
        tables.update_pages()
    elif arguments.command == "methods":
        from benchmarks.methods import methods

        result = methods(arguments.largest)
        _write(result, arguments.out / "benchmarks" / "methods.json")
        print(tables.methods_table(result))
    elif arguments.command == "health":
        from benchmarks.health import health

        _write(health(arguments.jobs, arguments.seconds), arguments.out / "benchmarks" / "health.json")
    elif arguments.command == "precision":
        from benchmarks.precision import precision

        _write(precision(arguments.seconds), arguments.out / "benchmarks" / "precision.json")
    elif arguments.command == "half":
        from benchmarks import half

        if arguments.train:
            half.train(arguments.folder)
        else:
            compared = half.half(arguments.folder, arguments.processes, arguments.minutes)
            _write(compared, arguments.out / "benchmarks" / "half.json")
            print(half.table(compared))
    elif arguments.command == "propagated":
        from benchmarks.propagated import propagated

        result = propagated(arguments.largest, arguments.device)
        _write(result, arguments.out / "benchmarks" / "propagated.json")
    elif arguments.command == "plus" and arguments.merge is not None:
        result = plus.merge(arguments.merge)
        _write(result, tables.PLUS)
        print(*(plus.table(result, dim) for dim in plus.DIMS), sep="\n")
    elif arguments.command == "plus":
        options = (arguments.graphs, arguments.variants, arguments.seeds, arguments.device, arguments.seconds)
        plus.plus(arguments.out, *options)
    elif arguments.command == "plus-time":
        file = arguments.out / "benchmarks" / "plus.json"
        devices = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        devices[resolve_device(arguments.device).type] = plus_time.plus_time(arguments.largest, arguments.device)
        _write(devices, file)
        print(plus_time.tables(devices))
    elif arguments.command == "retention":
        from benchmarks import retention

        if not arguments.merge:
            for graph in arguments.graphs:
                methods = tuple(arguments.methods or retention.METHODS)
                retention.retention(graph, arguments.folder, methods, arguments.device)
        result = retention.merge(arguments.folder, tables.COMPARISON)
        if arguments.merge:
            _write(result, arguments.out / "benchmarks" / "retention.json")
        print(retention.agreement_table(result))
    elif arguments.command == "encoding":
        from benchmarks import encoding

        compared = encoding.encoding()
        _write(compared, arguments.out / "benchmarks" / "encoding.json")
        print(encoding.table(compared))
    elif arguments.command == "new-nodes":
        from benchmarks import new_nodes

        new = new_nodes.new_nodes()
        _write({**new}, arguments.out / "benchmarks" / "new_nodes.json")
        print(new_nodes.table(new))
    elif arguments.command == "drift":
        from benchmarks import drift

        grown = drift.grown()
        _write({**grown}, arguments.out / "benchmarks" / "drift.json")
        print(drift.table(grown))
    elif arguments.command == "scale":
        from benchmarks import scale

        file = arguments.out / "scale" / "ranks.json"
        before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if arguments.device == "cpu":
            result = {**scale.scale(arguments.ranks, arguments.nodes or scale.NODES), "gpu": before.get("gpu")}
        else:
            result = {**before, "gpu": scale.on_gpu(arguments.nodes or scale.MILLION)}
        _write(result, file)
        print(scale.table(result))
    elif arguments.command == "structure":
        from benchmarks.structure import add_widths, structure, table

        file = arguments.out / "benchmarks" / "structure.json"
        earlier = json.loads(file.read_text(encoding="utf-8")) if arguments.add else None
        measured = structure(arguments.node2vec) if earlier is None else add_widths(earlier)
        _write({**measured}, file)
        print(table(measured))
    elif arguments.command == "ingest":
        from benchmarks.ingest import ingestion, merged, table

        options = (arguments.folder, arguments.memory, tuple(arguments.formats))
        measured = ingestion(arguments.edges, arguments.engine_edges, *options)
        path = arguments.out / "scale" / "ingest.json"
        result = merged(measured, path)
        _write({**result}, path)
        print(table(result))
    elif arguments.command == "large":
        from benchmarks.large import large

        options = {"whole": arguments.whole, "epochs": arguments.steps, "folder": arguments.folder}
        options["batch_size"] = arguments.batch_size
        file = arguments.out / "scale" / "large.json"
        before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        _write(large(arguments.nodes, arguments.methods, arguments.device, before=before, **options), file)
    elif arguments.command == "cost":
        from benchmarks.cost import cost

        file = arguments.out / "scale" / "cost.json"
        before = json.loads(file.read_text(encoding="utf-8")) if arguments.refit else None
        _write(cost(arguments.device, before, later=arguments.later), file)
    elif arguments.command == "tune":
        from benchmarks.tune import tune, write

        write(tune())
    elif arguments.command == "gpu" or (arguments.command is None and torch.cuda.is_available()):
        from benchmarks.gpu import gpu

        result = gpu(arguments.largest)
        _write(result, arguments.out / "benchmarks" / "gpu.json")
        print(tables.gpu_table(result), tables.loss_table(result), tables.precision_table(result), sep="\n")
    else:
        from benchmarks.cpu import cpu

        result = cpu(arguments.epochs)
        _write(result, arguments.out / "benchmarks" / "cpu.json")
        print(tables.cpu_table(result))


def _write(result: dict, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(result, path)


if __name__ == "__main__":  # the processes of a pool import this module
    main()
