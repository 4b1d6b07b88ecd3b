"""``python -m benchmarks``: measure, write ``results``, print the tables.

python -m benchmarks                             what fits this machine: gpu if there is one, else cpu
python -m benchmarks cpu                         epoch times, memory, pre-processing
python -m benchmarks gpu                         the same on a GPU, and the loss alone, its errors and its scaling
python -m benchmarks tune                        choose the tiles of the loss's kernels on this GPU
python -m benchmarks methods                     an epoch of every method, time and memory
python -m benchmarks health                      label-free measures beside the accuracy they should tell of
python -m benchmarks readme                      put the tables of results/ into README.md and docs, draw figures
"""

import argparse
import sys
from pathlib import Path

import torch

from benchmarks import tables
from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.files import write_json


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command")
    cpu_parser = commands.add_parser("cpu", help="epoch times against plain implementations, memory, pre-processing")
    cpu_parser.add_argument("--epochs", type=int, default=10, help="timed epochs of each implementation")
    gpu_parser = commands.add_parser("gpu", help="epoch times, memory, the loss alone, its errors and scaling")
    gpu_parser.add_argument("--largest", type=int, default=10**9, help="leave out graphs with more nodes")
    commands.add_parser("tune", help="choose the tiles of the loss's kernels on this GPU")
    methods_parser = commands.add_parser("methods", help="an epoch of every method on a GPU, time and memory")
    methods_parser.add_argument("--largest", type=int, default=10**9, help="leave out graphs with more nodes")
    health_parser = commands.add_parser("health", help="label-free measures of trained, untrained and spoilt models")
    health_parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    health_parser.add_argument("--seconds", type=float, default=1e9, help="give up what is not finished by then")
    commands.add_parser("readme", help="put the tables of results/ into README.md and docs, draw the figures")
    for command in (cpu_parser, gpu_parser, methods_parser, health_parser):
        command.add_argument("--out", type=Path, default=tables.RESULTS, help="folder of results")
    parser.set_defaults(epochs=10, largest=10**9, out=tables.RESULTS)
    arguments = parser.parse_args()
    try:
        run(arguments)
    except (InputError, MissingExtra) as error:
        sys.exit(f"benchmarks: {error}")


def run(arguments: argparse.Namespace) -> None:
    """Measure what was asked for."""
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


if __name__ == "__main__":  # processes of a pool import this module
    main()
