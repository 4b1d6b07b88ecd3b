"""Dependencies: ``requirements`` pins them with hashes, ``sbom`` lists them, ``audit`` looks for known weaknesses."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements-ci.txt"
HEADER = """\
# Every package that the tests need, with the hashes of its files; written by `make requirements`.
# For Python 3.11 on Linux (x86-64). PyTorch is not listed: its build for the CPU comes from PyTorch's own index.
"""
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"


def pinned(text: str) -> dict[str, list[str]]:
    """Return the hashes of each pinned package, ``name==version``, in a requirements file."""
    packages: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := re.match(r"([\w.-]+==\S+)", line):
            packages[match[1]] = []
        elif match := re.search(r"--hash=sha256:([0-9a-f]{64})", line):
            packages[next(reversed(packages))].append(match[1])
    return packages


def requirements(find_links: str | None) -> int:
    """Write ``requirements-ci.txt`` from pyproject.toml and constraints.txt."""
    torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    override = ROOT / "dist" / "torch.txt"
    override.parent.mkdir(exist_ok=True)
    override.write_text(f"{torch}+cpu\n")  # the build for CUDA would bring its own libraries and another triton
    index = ["--index", TORCH_INDEX, "--index-strategy", "unsafe-best-match"]
    wheels = ["--find-links", find_links] if find_links else index
    command = ["-m", "uv", "pip", "compile", "pyproject.toml", "--extra", "test", "-c", "constraints.txt", *wheels]
    command += ["--overrides", str(override), "--generate-hashes", "--no-header", "--no-emit-package", "torch", "-q"]
    command += ["--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28", "-o", str(REQUIREMENTS)]
    REQUIREMENTS.unlink(missing_ok=True)
    done = subprocess.run([sys.executable, *command], cwd=ROOT, check=False)
    if done.returncode == 0:
        REQUIREMENTS.write_text(HEADER + REQUIREMENTS.read_text())
    return done.returncode


def sbom(out: Path) -> int:
    """Write a CycloneDX list of the installed packages."""
    command = ["-m", "cyclonedx_py", "environment", "--pyproject", "pyproject.toml", "--of", "JSON", sys.executable]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode == 0:
        content = json.loads(done.stdout)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(content, indent=2) + "\n")
        print(f"written: {out} ({len(content['components'])} components)")
    return done.returncode


def audit() -> int:
    """Look up the pinned packages among known weaknesses. Return 1 if there is one."""
    command = ["-m", "pip_audit", "--requirement", str(REQUIREMENTS), "--require-hashes", "--disable-pip"]
    command += ["--strict"]  # a package that cannot be looked up is no good news
    return subprocess.run([sys.executable, *command], check=False).returncode


def main() -> int:
    """Run one command; see the module."""
    parser = argparse.ArgumentParser(prog="python tests/supply_chain.py", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("requirements").add_argument("--find-links", help="folder with the wheel of PyTorch")
    commands.add_parser("sbom").add_argument("--out", type=Path, default=ROOT / "dist" / "sbom.json")
    commands.add_parser("audit")
    arguments = parser.parse_args()
    match arguments.command:
        case "requirements":
            return requirements(arguments.find_links)
        case "sbom":
            return sbom(arguments.out)
        case _:
            return audit()


if __name__ == "__main__":
    sys.exit(main())
