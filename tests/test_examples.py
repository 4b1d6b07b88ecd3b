"""The scripts in ``examples/`` run and print what they promise."""

import ast
import json
import os
import re
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from epagcl.core.outputs import CONFIG
from epagcl.report.content import read_content

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error::DeprecationWarning:epagcl", str(EXAMPLES / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        *("flat_epagcl.py", "make_data.py", "make_notebooks.py", "own_data.py", "own_method.py")
    }


def test_the_files_of_the_examples_are_those_of_the_script(tmp_path):
    assert run("make_data.py", str(tmp_path)).count("\n") == 5
    written = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.*sv"))
    assert written == sorted(path.relative_to(EXAMPLES / "data") for path in (EXAMPLES / "data").rglob("*.*sv"))
    for path in written:
        assert (tmp_path / path).read_bytes() == (EXAMPLES / "data" / path).read_bytes(), path


#: The command of each folder, as in docs/own-graphs.md, and how much better than chance its labels are found.
COMMANDS = {
    "transactions": "--edges payments.csv --source payer --target payee --features accounts.csv --label status",
    "citations": "--edges citations.csv --features papers.csv --labels areas.csv",
    "proteins": "--edges interactions.tsv --weight combined_score --features proteins.tsv --labels functions.tsv",
    "organisation": "--edges contacts.csv --features people.csv --label team",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_files_become_a_report_in_one_command(name, tmp_path):
    command = [sys.executable, "-m", "epagcl", "train", *COMMANDS[name].split(), "--map", "pca", "--device", "cpu"]
    command += ["--epochs", "3"] if name in ("transactions", "citations") else ["--method", "propagated"]
    command += ["--out", str(tmp_path / "run"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES / "data" / name)
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)
    assert metrics["evaluation"]["accuracy"]["mean"] > 0.6
    facts = dict(read_content(tmp_path / "run")["facts"])
    assert all(column["name"] in facts["Feature columns"] for column in metrics["graph"]["columns"])
    if name == "organisation":
        assert [kind["name"] for kind in metrics["graph"]["relations"]] == ["call", "mail", "manages"]
        assert facts["Relations"] == "call (120), mail (260), manages (86)"
        assert metrics["evaluation"]["accuracy"]["mean"] > 0.8  # all kinds merged: below 0.7
    assert (tmp_path / "run" / "report.html").stat().st_size > 100_000


@pytest.mark.slow
def test_own_data_finds_the_newcomers_group():
    output = run("own_data.py")
    assert "120 nodes, 32 dimensions" in output
    nearest = re.search(r"nearest to the newcomer: (.+)", output)[1].split(", ")
    assert all(int(name.removeprefix("person-")) % 3 == 0 for name in nearest)


@pytest.mark.slow
def test_own_method_beats_the_raw_features():
    output = run("own_method.py")
    first, last = map(float, re.search(r"loss: ([\d.]+) -> ([\d.]+)", output).groups())
    assert last < first
    raw, trained = map(float, re.findall(r"accuracy ([\d.]+)%", output))
    assert trained > raw


@pytest.mark.slow
def test_the_flat_script_has_sixty_lines_and_learns():
    assert len((EXAMPLES / "flat_epagcl.py").read_text(encoding="utf-8").splitlines()) <= 60
    output = run("flat_epagcl.py", "6")
    losses = [float(value) for value in re.findall(r"loss ([\d.]+)", output)]
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    assert float(re.search(r"accuracy ([\d.]+)%", output)[1]) > 75


class TestNotebooks:
    NAMES = ("comparing_methods", "new_nodes", "own_tables")

    def test_the_files_are_those_of_the_script_without_outputs(self, tmp_path):
        assert run("make_notebooks.py", str(tmp_path)).count("\n") == 3
        folder = EXAMPLES / "notebooks"
        assert sorted(path.stem for path in folder.glob("*")) == list(self.NAMES)
        for path in folder.glob("*.ipynb"):
            assert (tmp_path / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8")
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            assert all(cell.get("outputs", []) == [] for cell in cells)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["comparing_methods", "own_tables"])
    def test_all_cells_run(self, name, monkeypatch):
        """In this process, since a kernel takes seconds to start."""
        monkeypatch.chdir(EXAMPLES / "notebooks")
        cells = json.loads(Path(f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
        names: dict[str, object] = {}
        for cell in cells:
            if cell["cell_type"] == "code":
                *body, last = ast.parse("".join(cell["source"])).body
                exec(compile(ast.Module(body, []), name, "exec"), names)
                if isinstance(last, ast.Expr):
                    shown = eval(compile(ast.Expression(last.value), name, "eval"), names)
                    page = getattr(shown, "_repr_html_", lambda: "")()
                    assert "<script" not in (page or "")
                else:
                    exec(compile(ast.Module([last], []), name, "exec"), names)
        if name == "comparing_methods":
            assert names["table"]["accuracy"].max() > 0.8

    @pytest.mark.slow
    def test_a_kernel_shows_progress_and_summaries(self):
        nbformat = pytest.importorskip("nbformat")
        nbclient = pytest.importorskip("nbclient")
        notebook = nbformat.read(EXAMPLES / "notebooks" / "new_nodes.ipynb", as_version=4)
        place = {"metadata": {"path": str(EXAMPLES / "notebooks")}}
        with warnings.catch_warnings(action="ignore"):  # of the kernel's own libraries
            nbclient.NotebookClient(notebook, timeout=600, startup_timeout=300, resources=place).execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        assert not [output["text"] for output in outputs if output.get("name") == "stderr"]
        pages = [output["data"].get("text/html", "") for output in outputs if "data" in output]
        assert len([page for page in pages if '<progress value="20" max="20"' in page]) == 1  # one, updated
        assert any("trained for 20 epochs" in page and "<svg" in page for page in pages)


DISTRIBUTED = EXAMPLES / "distributed"
SMALL = ["demo", "--method", "propagated", "--dim", "4", "--map", "none", "--device", "cpu", "--out", "run", "--quiet"]


def start(folder: Path, *command: str, **environment: str) -> subprocess.Popen[str]:
    """Start a command in a folder of its own, with the Python of the tests."""
    folder.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(EXAMPLES.parent), **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


@pytest.mark.slow
def test_one_machine_with_two_ranks(tmp_path):
    script = str(DISTRIBUTED / "own_script.py")
    path = str(Path(sys.executable).parent / "torchrun")
    process = start(tmp_path / "one", path, "--standalone", "--nproc-per-node", "2", script)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert re.search(r"^2 ranks, loss \d+\.\d+, embedding \(2700, 32\)$", out, re.MULTILINE)
    assert (tmp_path / "one" / "model" / "model.safetensors").is_file()


@pytest.mark.slow
def test_two_machines_with_one_rendezvous(tmp_path):
    environment = {"HOST": "localhost", "PORT": str(free_port()), "RANKS": "1"}
    command = ["sh", str(DISTRIBUTED / "two_machines.sh"), *SMALL]
    machines = [start(tmp_path / name, *command, **environment) for name in ("first", "second")]
    for machine in machines:
        _, errors = machine.communicate(timeout=300)
        assert machine.returncode == 0, errors
    runs = [json.loads(path.read_text()) for path in tmp_path.glob("*/run/metrics.json")]
    assert [run["training"]["ranks"] for run in runs] == [2]  # rank 0 has written, the other has not


@pytest.mark.parametrize("name", ["one_machine.sh", "two_machines.sh", "slurm.sbatch"])
def test_the_shell_scripts_are_valid(name):
    assert subprocess.run(["sh", "-n", str(DISTRIBUTED / name)], capture_output=True).returncode == 0
    text = (DISTRIBUTED / name).read_text()
    assert "torchrun" in text
    assert '-m epagcl train "$@"' in text


def test_machines_have_a_new_store_at_each_start():
    for name in ("two_machines.sh", "slurm.sbatch"):
        assert "export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1" in (DISTRIBUTED / name).read_text()


def test_the_kubernetes_job_starts_a_run_and_continues_it(tmp_path):
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((DISTRIBUTED / "kubernetes.yaml").read_text())
    policy, worker = job["spec"]["elasticPolicy"], job["spec"]["pytorchReplicaSpecs"]["Worker"]
    assert (job["kind"], policy["rdzvBackend"], policy["maxRestarts"]) == ("PyTorchJob", "c10d", 3)
    assert (worker["restartPolicy"], job["spec"]["runPolicy"]["backoffLimit"]) == ("OnFailure", 10)
    (container,) = worker["template"]["spec"]["containers"]
    assert {"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "1"} in container["env"]
    torchrun = tmp_path / "torchrun"
    torchrun.write_text('#!/bin/sh\necho "$@"\n')
    torchrun.chmod(0o755)
    command = [*container["command"], *(text.replace("/data", str(tmp_path)) for text in container["args"])]
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    first = f"-m epagcl train {tmp_path}/graph.npz --method epagcl --out {tmp_path}/run"
    assert subprocess.check_output(command, env=path, text=True).split() == first.split()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / CONFIG).touch()
    assert subprocess.check_output(command, env=path, text=True).split() == [*first.split(), "--resume"]
