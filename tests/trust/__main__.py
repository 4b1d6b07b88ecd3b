"""Run the harness: ``python -m tests.trust`` writes ``results/trust/*.json``; ``--short`` takes a few seconds."""

import argparse
import sys
import tempfile
from pathlib import Path

import torch

from epagcl.core.files import write_json
from epagcl.runs import provenance
from tests.trust.faults import full_disks, kills, shared_folders
from tests.trust.readers import fuzz_readers

#: Number of cases of each part: in ``make trust`` and in ``make test``.
CASES = {"readers": (20_000, 80), "kills": (240, 2), "full_disks": (120, 1), "shared_folders": (24, 1)}
PARTS = {"readers": fuzz_readers, "kills": kills, "full_disks": full_disks, "shared_folders": shared_folders}


def main() -> int:
    """Run the chosen parts. Return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.trust", description=__doc__)
    parser.add_argument("parts", nargs="*", default=[], help=f"some of {', '.join(PARTS)}; default: all")
    parser.add_argument("--short", action="store_true", help="few cases, as in make test")
    parser.add_argument("--seed", type=int, default=0, help="seed of the damage and of the moments")
    parser.add_argument("--cases", type=int, help="number of cases of each part")
    parser.add_argument("--out", type=Path, default=Path("results/trust"), help="folder of the results")
    options = parser.parse_args()
    torch.set_num_threads(1)  # children are forked, which needs a process without threads
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in options.parts or PARTS:
        count = options.cases or CASES[name][options.short]
        with tempfile.TemporaryDirectory(prefix="epagcl-trust-") as folder:
            result = PARTS[name](Path(folder), count, options.seed).to_dict()
        write_json({"part": name, **result, **provenance("cpu")}, options.out / f"{name}.json")
        print(f"{name}: {result['cases']:,} cases, {result['failed']} failed, {result['seconds']:.0f} s", flush=True)
        for failure in result["failures"][:5]:
            print(f"  {failure['kind']}: {failure['what'][-700:]}", file=sys.stderr)
        failed += result["failed"]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
