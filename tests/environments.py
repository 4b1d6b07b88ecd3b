"""The quick tests in other environments: ``make lowest`` and ``make pythons``.

``lowest`` installs every dependency in the lowest version that ``pyproject.toml`` allows. ``pythons`` installs the
pinned versions for each given interpreter; interpreters that are not installed are named and skipped.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Tools that run the tests: they have their pinned versions in every environment.
TOOLS = ("coverage", "hypothesis", "playwright", "pytest", "pytest-cov", "pytest-xdist")


def lowest_versions() -> dict[str, str]:
    """Return each dependency of the package and of its extras with the lowest version allowed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [
        *project["dependencies"],
        *(line for name in extras if name not in ("docs", "test") for line in extras[name]),
    ]
    matches = (re.match(r"([\w.-]+)>=([\d.]+)", line) for line in lines)
    return {match[1].lower(): match[2] for match in matches if match is not None}


def pinned_versions() -> dict[str, str]:
    """Return the versions of ``constraints.txt``."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def run_in(python: str, folder: Path, packages: list[str], *arguments: str) -> int:
    """Run the quick tests in a new environment with these packages, and return pytest's exit status."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    environment_python = str(folder / "bin" / "python")
    install = [environment_python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *packages], check=True, cwd=ROOT)
    subprocess.run([*install, "--no-deps", "-e", "."], check=True, cwd=ROOT)
    tests = [environment_python, "-m", "pytest", "-n", "2", "-q", "-m", "not slow", *arguments]
    return subprocess.run(tests, cwd=ROOT).returncode


def lowest(torch: str | None) -> int:
    """Run the quick tests with the lowest versions; ``torch`` replaces the lowest one of PyTorch."""
    versions = lowest_versions() | ({} if torch is None else {"torch": torch})
    pinned = pinned_versions()
    packages = [f"{name}=={version}" for name, version in versions.items() if name not in ("umap-learn", "wandb")]
    tools = [f"{name}=={pinned[name]}" for name in TOOLS if name in pinned]
    print("lowest versions:", ", ".join(packages), flush=True)
    # Old libraries warn about each other; what is tested here is that the package works with them.
    return run_in(sys.executable, ROOT / ".venv-lowest", [*packages, *tools, "hatchling"], "-W", "default")


def pythons(interpreters: list[str]) -> int:
    """Run the quick tests with each interpreter; fail if none is installed or the tests fail with one."""
    # A CUDA build of PyTorch brings its own version of Triton.
    pinned = [f"{name}=={version}" for name, version in pinned_versions().items() if name != "triton"]
    failures, tried = [], 0
    for interpreter in interpreters:
        if subprocess.run([interpreter, "-c", ""], capture_output=True).returncode if shutil.which(interpreter) else 1:
            print(f"{interpreter}: not installed, skipped", flush=True)
            continue
        tried += 1
        if run_in(interpreter, ROOT / f".venv-{Path(interpreter).name}", [*pinned, ".[test]"]) != 0:
            failures.append(interpreter)
    print(f"{tried} of {len(interpreters)} interpreters tried; failed: {', '.join(failures) or 'none'}")
    return int(bool(failures) or tried == 0)


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("lowest").add_argument("--torch", help="a version in place of the lowest one")
    commands.add_parser("pythons").add_argument("interpreters", nargs="+")
    arguments = parser.parse_args()
    return lowest(arguments.torch) if arguments.command == "lowest" else pythons(arguments.interpreters)


if __name__ == "__main__":
    sys.exit(main())
