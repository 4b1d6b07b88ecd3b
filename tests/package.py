"""``make package``: wheel and sdist, each run in an environment that holds nothing else, then every extra by itself."""

import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
#: What shows that an extra brought what it is for.
USES = {
    "ann": "import torch, epagcl; assert epagcl.nearest_neighbours(torch.rand(50, 4), 3, index='hnsw').recall > 0.5",
    "audit": "import cyclonedx_py, pip_audit, uv",
    "docs": "import furo, myst_parser, sphinx",
    "gpu": "import triton",
    "ingest": "import epagcl, pathlib; pathlib.Path('e.csv').write_text('source,target\\n0,1\\n1,2\\n'); "
    "assert epagcl.ingest('e.csv', 'graph').num_edges == 2",
    "networkx": "import networkx as nx, numpy as np, epagcl; "
    "epagcl.from_networkx(nx.karate_club_graph(), np.eye(34, dtype='float32'))",
    "ogb": "import ogb.nodeproppred",
    "parquet": "import torch; from epagcl.runs.export import write_embeddings; "
    "write_embeddings(torch.rand(3, 2), ['a', 'b', 'c'], 'z.parquet')",
    "polars": "import polars as pl, numpy as np, epagcl; "
    "epagcl.from_tables(pl.DataFrame({'source': [0, 1], 'target': [1, 2]}), np.eye(3, dtype='float32'))",
    "report": "import torch; from epagcl.report.maps import flat_map; flat_map(torch.rand(40, 8), 'umap')",
    "notebook": "import ipykernel, ipywidgets, epagcl; assert '<svg' not in epagcl.EPAGCL()._repr_html_()",
    "tensorboard": "from epagcl.integrations.loggers import tensorboard; tensorboard('logs').close()",
    "test": "import playwright, pytest, hypothesis, hatchling",
    "tune": "import epagcl; epagcl.tune(epagcl.data.block_model(200, seed=0), trials=2, epochs=3)",
    "wandb": "import os; os.environ['WANDB_MODE'] = 'offline'; "
    "from epagcl.integrations.loggers import wandb; wandb('p', dir='.').close()",
}


def python_of(folder: Path, *parents: Path) -> Path:
    """The Python of a new environment; what is installed in its ``parents`` is there too."""
    venv.create(folder, with_pip=True)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "parents.pth").write_text("".join(f"{path}\n" for path in parents))
    return folder / "bin" / "python"


def step(words: str, *command: object, cwd: Path) -> None:
    """Run a command quietly; show what it said if it failed."""
    start = time.monotonic()
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    print(f"{words}: {'ok' if done.returncode == 0 else 'FAILED'} ({time.monotonic() - start:.0f} s)", flush=True)
    if done.returncode != 0:
        sys.exit(done.stdout[-2000:] + done.stderr[-4000:])


def run_demo(words: str, python: Path, cwd: Path) -> None:
    """Train for a moment, and look for the report."""
    step(
        f"{words}: epagcl train demo",
        python.with_name("epagcl"),
        *["train", "demo", "--epochs", "3", "--out", "run"],
        cwd=cwd,
    )
    assert (cwd / "run" / "report.html").stat().st_size > 10**6


def main(wanted: list[str]) -> None:
    """Build, install, run; ``wanted`` names extras, else all."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) == set(USES), "every extra needs a line that uses it"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        step("build", sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
        (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", CONSTRAINTS]
        python = python_of(folder / "wheel")
        step("wheel: install", python, *pip, wheel, cwd=folder)
        (folder / "a").mkdir()
        run_demo("wheel", python, folder / "a")
        site = next((folder / "wheel").glob("lib/python*/site-packages"))
        for extra in wanted or sorted(extras):
            beside = python_of(folder / extra, site)
            # Its dependencies alone, beside those of the wheel.
            step(f"extra {extra}: install", beside, *pip, f"epagcl[{extra}] @ {wheel.as_uri()}", cwd=folder)
            (folder / f"in-{extra}").mkdir()
            step(f"extra {extra}: use", beside, "-c", USES[extra], cwd=folder / f"in-{extra}")
        if not wanted:
            # From the sdist, beside the wheel's dependencies: what it must show is that it builds and is whole.
            second = python_of(folder / "sdist", site)
            step("sdist: install", second, *pip, "--force-reinstall", "--no-deps", sdist, cwd=folder)
            (folder / "b").mkdir()
            run_demo("sdist", second, folder / "b")


if __name__ == "__main__":
    main(sys.argv[1:])
