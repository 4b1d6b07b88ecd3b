"""Code in README and docs runs, their statements match the results, and the site builds."""

import importlib
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import epagcl
from benchmarks.tables import PAGES as TABLE_PAGES
from benchmarks.tables import with_tables
from epagcl.data import block_model, undirected_pairs, write_npz
from epagcl.evaluation.protocol import Rule

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("api/*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
#: Pages whose code takes a quarter of a minute or more.
LONG_PAGES = ("docs/scaling.md", "docs/tuning.md")
ALL_PAGES = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
NOT_RUN = (
    "make ",
    "pip install ",
    "git ",
    "tensorboard ",
    "open ",
    "python -m benchmarks",
    "python -m sphinx",
    "nvidia-",
    "torchrun ",
)
NOT_RUN += ("epagcl paper all ",)  # takes hours; only its options are checked
GRAPHS = ("Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Coauthor-Physics", "Texas")

sys.path.insert(0, str(DOCS))
from builder import reference  # noqa: E402


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the code blocks in order, each with its language."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def commands_of(block: str) -> list[str]:
    """Return the lines of a block without comments, with lines that end in a backslash joined."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s)# .*$", "", line).strip() for line in lines) if line]


@pytest.fixture(scope="module")
def named_graphs(tmp_path_factory) -> Path:
    """Tiny graphs with the names of large ones."""
    root = tmp_path_factory.mktemp("named")
    for seed, name in enumerate(GRAPHS):
        data = block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=seed)
        write_npz(data, root / f"{name}.npz")
    return root


@pytest.fixture
def workspace(run, tmp_path, monkeypatch, named_graphs):
    """A folder with the files that pages mention, tiny named graphs, and short training."""
    from epagcl.methods import base

    monkeypatch.setenv("EPAGCL_DATA", str(named_graphs))
    monkeypatch.setattr("epagcl.data.catalogue.loading.verify", lambda *_: None)
    monkeypatch.setattr("epagcl.evaluation.protocol.STRICT", Rule((0.1, 0.001), 20, 10, True, False))
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 20, 1, False, True))
    train = base.train

    def train_briefly(method, *arguments, **options):
        epochs, method.epochs = method.epochs, min(method.epochs, 3)
        try:
            return train(method, *arguments, **options)
        finally:
            method.epochs = epochs

    monkeypatch.setattr(base, "train", train_briefly)
    shutil.copytree(ROOT / "examples" / "data", "examples/data")
    for suffix, seed in (("", 0), ("-tomorrow", 1)):
        data = block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=seed)
        x = data.x.to_dense().numpy()
        pairs = undirected_pairs(data.edge_index, 60).T.numpy()
        pd.DataFrame(pairs, columns=["source", "target"]).to_csv(f"e{suffix}.csv", index=False)
        pd.DataFrame(x).add_prefix("x").rename_axis("id").reset_index().to_csv(f"f{suffix}.csv", index=False)
        np.save(f"f{suffix}.npy", x)
        pd.DataFrame({"id": range(60), "label": data.y}).to_csv(f"l{suffix}.csv", index=False)
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name, marks=[pytest.mark.long] * (name in LONG_PAGES))
        for page, name in zip(PAGES, NAMES, strict=True)
    ],
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, workspace, capsys):
    namespace: dict = {}
    for language, block in blocks(text_of(page)):
        if language == "python":
            exec(compile(block, page.name, "exec"), namespace)
        if language in ("sh", "bash"):
            for line in commands_of(block):
                if line.startswith("epagcl ") and not line.startswith(NOT_RUN):
                    words = ["cpu" if word == "cuda" else word for word in shlex.split(line)[1:]]
                    code, _, error = workspace(*words)
                    assert code == 0, f"{line}\n{error}"
                else:
                    assert line.startswith(NOT_RUN), line


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_mentioned_command_and_option_exists(page):
    import typer.main

    from epagcl.cli.app import app
    from epagcl.methods import method, names

    settings = {f"--{field.name.replace('_', '-')}" for name in names() for field in method(name).setting_fields()}
    text = text_of(page)
    lines = [line for language, block in blocks(text) if language in ("sh", "bash") for line in commands_of(block)]
    lines += re.findall(r"`(epagcl [^`]+)`", prose(text))
    for line in [part.strip() for joined in lines for part in joined.split("&&")]:
        words = line.replace("...", "").split()
        if words[:1] != ["epagcl"] or len(words) < 2 or words[1].isupper():
            continue
        command = typer.main.get_command(app)
        for word in words[1:]:
            if hasattr(command, "commands") and not word.startswith("-") and not word.isupper():
                assert word in command.commands, line
                command = command.commands[word]
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for option in re.findall(r"(?<!\S)--[\w-]+", line):
            assert option in options | settings | {"--help"}, line


@pytest.mark.parametrize("page", TABLE_PAGES, ids=[page.name for page in TABLE_PAGES])
def test_generated_tables_match_the_results(page):
    text = text_of(page)
    assert with_tables(text) == text
    assert text.count("\n|---") > 0


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_have_targets(page):
    for target, _, anchor in re.findall(r"\]\(([^)#\s]*)(#([^)\s]+))?\)", prose(text_of(page))):
        if target.startswith("http"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", text_of(file), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_lines_of_prose_have_at_most_120_characters(page):
    if page.name == "results.md":
        pytest.skip("generated")
    for number, line in enumerate(text_of(page).splitlines(), 1):
        assert len(line) <= 120 or line.startswith("|"), f"{page.name}:{number}"


# ---- The architecture in CONTRIBUTING.md


def documented_tree() -> list[str]:
    """Return the paths in the tree of CONTRIBUTING.md. A folder stands for its ``__init__.py``."""
    (tree,) = [block for language, block in blocks(text_of(ROOT / "CONTRIBUTING.md")) if language == "text"]
    paths, parents = [], []
    for line in tree.splitlines():
        name = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        assert depth == 0 or line[2 * depth + len(name) :].strip(), f"{name} has no description"
        parents = [*parents[:depth], name]
        paths.append("".join(parents))
    return paths


def test_every_module_is_in_the_tree_exactly_once():
    modules = []
    for path in documented_tree():
        folder = path != "epagcl/" and path.endswith("/")
        modules += [f"{path}__init__.py"] if folder else [path] if path.endswith(".py") else []
    assert len(modules) == len(set(modules))
    assert set(modules) == {path.relative_to(ROOT).as_posix() for path in (ROOT / "epagcl").rglob("*.py")}


def test_the_tree_lists_the_layers_from_the_lowest_to_the_highest():
    (contract,) = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    rank = {name.strip(): number for number, layer in enumerate(contract["layers"][::-1]) for name in layer.split("|")}
    top = [path.split("/")[1].removesuffix(".py") for path in documented_tree() if path.strip("/").count("/") == 1]
    layers = [rank[name] for name in top if name in rank]
    assert layers == sorted(layers)
    assert len(layers) == len(rank)


# ---- The reference and the site


def test_every_command_and_method_is_in_the_reference():
    import typer.main

    from epagcl.cli.app import app

    root = typer.main.get_command(app)
    text = reference.commands()
    for name, command in root.commands.items():
        assert f"## epagcl {name}\n" in text
        for parameter in command.params:
            assert all(option in text for option in parameter.opts if option.startswith("--"))
        for inner in getattr(command, "commands", {}):
            assert f"epagcl {name} {inner}" in text
    methods = reference.methods()
    for name in epagcl.methods():
        cls = epagcl.method(name)
        if cls.__module__.startswith("epagcl."):
            section = methods.split(f"`--method {name}`")[1].split("\n## ")[0]
            shared = reference.settings()
            for field in cls.setting_fields():
                row = f"| `{field.name}` |"
                assert row in section or row in shared
                assert f"`{field.default}` |" in "".join(re.findall(rf"^\| `{field.name}` .*$", section + shared, re.M))


def test_every_exported_name_is_in_the_reference():
    listed = set(re.findall(r"^\.\. auto\w+:: (epagcl[\w.]+)", "".join(map(text_of, DOCS.glob("api/*.md"))), re.M))
    listed |= {f"epagcl.{epagcl.method(name).__name__}" for name in epagcl.methods()} | {"epagcl.methods.names"}
    packages = ("data", "epr", "evaluation", "losses", "methods", "nn", "runs", "study", "tasks", "training", "views")
    for package in packages:
        for name in importlib.import_module(f"epagcl.{package}").__all__:
            if f"{package}.{name}" not in ("losses.IMPLEMENTATIONS", "nn.SLOPES", "nn.Adjacency"):
                assert {f"epagcl.{package}.{name}", f"epagcl.{name}"} & listed, f"epagcl.{package}.{name}"


def test_every_page_is_in_the_contents():
    listed = {page for pages in reference.CONTENTS.values() for page in pages}
    assert listed | {"index"} == {page.stem for page in DOCS.glob("*.md")} | {"api/index"}
    assert set(re.findall(r"^\w+$", reference.api(), re.M)) | {"index"} == {page.stem for page in DOCS.glob("api/*.md")}


@pytest.mark.long
def test_the_site_builds_without_a_warning_names_everything_and_needs_no_network(tmp_path):
    for package in ("sphinx", "furo", "myst_parser"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    process = subprocess.run([*build, str(DOCS), str(tmp_path / "site")], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    pages = {path.relative_to(tmp_path / "site").as_posix(): text_of(path) for path in tmp_path.glob("site/**/*.html")}
    api = "".join(text for name, text in pages.items() if name.startswith("api/"))
    for name in epagcl.__all__:
        is_module = isinstance(getattr(epagcl, name), ModuleType)
        assert f'id="epagcl.{name}"' in api or (is_module and f'id="epagcl.{name}.' in api), name
    assert 'id="epagcl-train"' in pages["cli.html"]
    assert api.count('<svg class="formula"') > 30
    for name, text in pages.items():
        assert not re.search(r'<(script|link|img|iframe)[^>]*(src|href)="(https?:)?//', text), name
        assert "<!-- generated:" not in text, name
    for sheet in tmp_path.glob("site/_static/**/*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet
