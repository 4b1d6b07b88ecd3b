"""Run the harness: ``python -m tests.trust`` writes ``results/trust/*.json``; ``--short`` takes a few seconds."""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.trust.cases import Tally

#: The function of each part, and its number of cases: in ``make trust`` and in ``make test`` (0: not there).
PARTS = {
    "readers": ("readers.fuzz_readers", 10_000, 80),
    "coverage_guided": ("coverage_guided.coverage_guided", 12_000, 40),
    "commands": ("command_lines.fuzz_commands", 500, 10),
    "api": ("api.fuzz_api", 5_000, 54),
    "kills": ("faults.kills", 450, 3),
    "full_disks": ("faults.full_disks", 340, 4),
    "shared_folders": ("faults.shared_folders", 24, 1),
    "long_runs": ("long_runs.long_runs", 1_000, 10),
    "reproducibility": ("reproducibility.reproducibility", 100, 0),
    "mutation": ("mutation.mutation", 150, 0),
}


def main() -> int:
    """Run the chosen parts, each in a process of its own. Return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.trust", description=__doc__)
    parser.add_argument("parts", nargs="*", default=[], help=f"some of {', '.join(PARTS)}; default: all")
    parser.add_argument("--short", action="store_true", help="few cases, as in make test")
    parser.add_argument("--seed", type=int, default=0, help="seed of the damage and of the moments")
    parser.add_argument("--cases", type=int, help="number of cases of each part")
    parser.add_argument("--minutes", type=float, help="start no part after this time; the oldest results come first")
    parser.add_argument("--out", type=Path, default=Path("results/trust"), help="folder of the results")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"no part {unknown[0]}; the parts are {', '.join(PARTS)}")
    chosen = options.parts or [name for name, (_, _, few) in PARTS.items() if few or not options.short]
    if options.short or len(chosen) == 1:
        return max(run_part(name, options) for name in chosen)
    command = [sys.executable, "-m", "tests.trust", "--seed", str(options.seed), "--out", str(options.out)]
    command += ["--cases", str(options.cases)] if options.cases else []
    start, code = time.monotonic(), 0
    for name in sorted(chosen, key=lambda name: _date(options.out / f"{name}.json")) if options.minutes else chosen:
        if options.minutes and time.monotonic() > start + 60 * options.minutes:
            print(f"{name}: not in this time", flush=True)
        else:
            code = max(code, subprocess.run([*command, name], check=False).returncode)
    return code


def _date(file: Path) -> str:
    """Return the date of a result; an empty text if there is none."""
    return str(json.loads(file.read_text())["date"]) if file.exists() else ""


def run_part(name: str, options: argparse.Namespace) -> int:
    """Run one part and write its results. Return 1 if a case failed."""
    torch.set_num_threads(1)  # children are forked, which needs a process without threads
    place, many, few = PARTS[name]
    module, function = place.split(".")
    count = options.cases or (few if options.short else many)
    part = getattr(importlib.import_module(f"tests.trust.{module}"), function)
    with tempfile.TemporaryDirectory(prefix="epagcl-trust-") as folder:
        tally: Tally = part(Path(folder), count, options.seed)
    result = tally.to_dict()
    from epagcl.core.files import write_json  # after the part: mutation imports the package anew
    from epagcl.runs import provenance

    options.out.mkdir(parents=True, exist_ok=True)
    write_json({"part": name, **result, **provenance("cpu")}, options.out / f"{name}.json")
    print(f"{name}: {result['cases']:,} cases, {result['failed']} failed, {result['seconds']:.0f} s", flush=True)
    for failure in result["failures"][:5]:
        print(f"  {failure['kind']}: {failure['what'][-700:]}", file=sys.stderr)
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
