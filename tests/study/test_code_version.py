"""The key of a stored run changes with the code behind its numbers, and with nothing else."""

import ast
import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

import epagcl
from epagcl.core.errors import InputError
from epagcl.methods.dgi import DGI
from epagcl.methods.epagcl import EPAGCL
from epagcl.methods.gca import GCA
from epagcl.study import code_version as module
from epagcl.study.code_version import WITHOUT_INFLUENCE, code_version, imported_modules
from epagcl.study.scoring import scored_by


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Copy the package; the value is the folder that holds it."""
    folder = tmp_path_factory.mktemp("copy")
    source = Path(epagcl.__file__).parent
    shutil.copytree(source, folder / "epagcl", ignore=shutil.ignore_patterns("__pycache__", "*.js", "*.css"))
    return folder


@pytest.fixture
def root(package):
    """The folder with the copy of the package. Edits are undone after the test."""
    texts = {path: path.read_bytes() for suffix in ("py", "json") for path in package.rglob(f"*.{suffix}")}
    yield package
    for path, text in texts.items():
        path.write_bytes(text)
    _clear_caches()


def version(root: Path, method: type = EPAGCL) -> str:
    """Return the version of a method's stored runs for the package below ``root``, whose files are read again."""
    _clear_caches()
    return code_version(method, *scored_by(), root=root)


def _clear_caches() -> None:
    for function in (module._module_digests, module._import_origins, module._function_digest):
        function.cache_clear()


def load(path: Path, text: str, monkeypatch):
    """Write a module to a file and import it."""
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    monkeypatch.setitem(sys.modules, path.stem, loaded := importlib.util.module_from_spec(spec))
    spec.loader.exec_module(loaded)
    return loaded


def add_a_statement(text: str) -> str:
    return text + "\nADDED = 1\n"


def changed_by(root: Path, file: str, edit, method: type = EPAGCL) -> bool:
    """Return whether an edit of a file changes the version of a method's runs. The edit is undone."""
    path = root / "epagcl" / file
    before, text = version(root, method), path.read_text(encoding="utf-8")
    edited = edit(text)
    assert edited != text
    path.write_text(edited, encoding="utf-8")
    after = version(root, method)
    path.write_text(text, encoding="utf-8")
    return after != before


def edited_tree(text: str, change) -> str:
    """Return the source after ``change`` has changed the first node for which it returns True."""
    tree = ast.parse(text)
    assert any(change(node) for node in ast.walk(tree))
    return ast.unparse(tree)


def swap_an_operator(text: str) -> str:
    def swap(node):
        swapped = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.MatMult: ast.Mult}
        if isinstance(node, ast.BinOp) and type(node.op) in swapped:
            node.op = swapped[type(node.op)]()
            return True
        return False

    # Only inside functions: elsewhere an operator may join texts or types.
    tree = ast.parse(text)
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    assert any(swap(node) for function in functions for statement in function.body for node in ast.walk(statement))
    return ast.unparse(tree)


def edit_a_message(text: str) -> str:
    def edit(node):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            node.exc.args[0] = ast.Constant("another message")
            return True
        return False

    return edited_tree(text, edit)


def edit_a_log_line(text: str) -> str:
    def edit(node):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
            node.args = [ast.Constant("another line")]
            return True
        return False

    return edited_tree(text, edit)


def edit_a_help_text(text: str) -> str:
    def edit(node):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setting":
            node.args[1] = ast.Constant("another help text")
            return True
        return False

    return edited_tree(text, edit)


def edit_all_docstrings(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Expr(ast.Constant("Another docstring."))
    return ast.unparse(tree)


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    [
        "losses/infonce/tiled.py",
        "losses/infonce/triton_kernels.py",
        "views/sampling.py",
        "views/probabilities.py",
        "training/loop.py",
        "training/epoch.py",
        "core/sparse.py",
        "core/randomness.py",
        "nn/layers.py",
        "data/graph.py",
        "data/splits.py",
        "evaluation/linear.py",
        "evaluation/scores.py",
        "methods/contrast.py",
        "methods/epagcl.py",
        "methods/base.py",
    ],
)
def test_an_edited_computation_changes_the_version(root, file):
    assert changed_by(root, file, add_a_statement)
    if not file.startswith("methods/"):
        assert changed_by(root, file, swap_an_operator)


@pytest.mark.parametrize("name", ["score_seeds", "_fit", "_score_linear", "_score_supervised", "_scores_by_run"])
def test_an_edited_scoring_function_changes_the_version(root, name):
    def edit(node):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            node.body.insert(0, ast.parse("added = 1").body[0])
            return True
        return False

    assert changed_by(root, "study/scoring.py", lambda text: edited_tree(text, edit))


def test_a_new_scoring_function_changes_the_version(tmp_path, monkeypatch):
    text = (Path(epagcl.__file__).parent / "study" / "scoring.py").read_text(encoding="utf-8")

    def version_with(addition):
        copy = load(tmp_path / f"scoring_{len(addition)}.py", text + addition, monkeypatch)
        return code_version(*copy.scored_by())

    assert version_with("") == version_with("\nADDED = 1\n") == code_version(*scored_by())
    assert version_with("\ndef _new_helper(x):\n    return x + 1\n") != version_with("")


def test_the_choice_of_the_split_changes_the_version(root):
    assert changed_by(root, "runs/evaluation.py", lambda text: text.replace("seed % len(", "-seed % len("))


def test_measured_tiles_change_the_version(root):
    assert changed_by(root, "losses/infonce/tiles.json", lambda text: text + " ")


@pytest.mark.parametrize(
    "pattern",
    [
        "data/io/**/*.py",
        "data/catalogue/*.py",
        "report/*.py",
        "runs/*.py",
        "study/**/*.py",
        "paper/*.py",
        "integrations/*.py",
        "cli/*.py",
        "losses/neighbours.py",
        "core/files.py",
        "core/version.py",
    ],
)
def test_files_that_do_not_compute_the_numbers_keep_the_version(root, pattern):
    before = version(root)
    paths = list((root / "epagcl").glob(pattern))
    assert paths
    for path in paths:
        path.write_text(add_a_statement(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert version(root) == before


@pytest.mark.parametrize("name", ["dgi", "gca", "gcn", "greet", "mvgrl", "persistence", "registry"])
def test_the_files_of_other_methods_keep_the_version(root, name):
    assert not changed_by(root, f"methods/{name}.py", add_a_statement)


@pytest.mark.parametrize(
    ("file", "edit"),
    [
        ("losses/infonce/tiled.py", edit_all_docstrings),
        ("training/loop.py", edit_all_docstrings),
        ("views/sampling.py", lambda text: "# A comment.\n" + text),
        ("training/loop.py", edit_a_message),
        ("data/splits.py", edit_a_message),
        ("methods/base.py", edit_a_message),
        ("methods/base.py", edit_a_help_text),
        ("data/checking.py", edit_a_log_line),
        ("methods/contrast.py", lambda text: text + "\nfrom epagcl.core.log import log\n"),
    ],
)
def test_messages_and_documentation_keep_the_version(root, file, edit):
    assert not changed_by(root, file, edit)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "methods"),
    [
        ("methods/dgi.py", {DGI}),
        ("methods/contrast.py", {EPAGCL, GCA}),
        ("losses/infonce/dense.py", {EPAGCL, GCA, DGI}),
        ("training/loop.py", {EPAGCL, GCA, DGI}),
        ("cli/progress.py", set()),
        ("paper/accuracy.py", set()),
    ],
)
def test_a_file_changes_the_versions_of_the_methods_that_import_it(root, file, methods):
    assert {cls for cls in (EPAGCL, GCA, DGI) if changed_by(root, file, add_a_statement, cls)} == methods


def test_methods_have_different_versions():
    assert len({code_version(cls) for cls in (EPAGCL, GCA, DGI)}) == 3
    assert code_version(EPAGCL) == code_version(EPAGCL)


@pytest.mark.parametrize("name", ["epagcl", "gca", "gcn", "dgi"])
def test_methods_import_no_reader_report_or_command(name):
    modules = imported_modules(f"epagcl.methods.{name}", "epagcl.evaluation.linear", "epagcl.evaluation.scores")
    outside = ("data.io", "data.catalogue", "report", "runs", "study", "paper", "cli", "integrations")
    assert not [module for module in modules if module.startswith(tuple(f"epagcl.{part}" for part in outside))]
    assert {"epagcl.core.sparse", "epagcl.training.loop", "epagcl.evaluation.linear"} <= modules


def test_modules_without_influence_exist():
    assert all(importlib.util.find_spec(name) is not None for name in WITHOUT_INFLUENCE)


USERS_METHOD = """
import epagcl
from epagcl.methods import Method

class Mine(Method):
    def build(self, num_features): ...
    def loss(self, network, graph, prepared, epoch):
        return epagcl.{function}(network, graph)
"""


def test_a_users_method_counts_with_its_file_and_what_it_uses_of_the_package(root, tmp_path, monkeypatch):
    def method(function):
        return load(tmp_path / f"users_{function}.py", USERS_METHOD.format(function=function), monkeypatch).Mine

    mine = method("epr_change")
    before = version(root, mine)
    assert before != version(root, method("edge_probabilities"))
    path = root / "epagcl" / "epr" / "change.py"
    path.write_text(path.read_text(encoding="utf-8") + "\nADDED = 1\n", encoding="utf-8")
    assert version(root, mine) != before


@pytest.mark.parametrize(
    ("imports", "counted"),
    [
        ("import users_losses", {"users_losses.py", "users_deep.py"}),
        ("from users_losses import loss", {"users_losses.py", "users_deep.py"}),
        ("from users_package.part import loss", {"users_package/__init__.py", "users_package/part.py"}),
        ("from users_package import part", {"users_package/__init__.py", "users_package/part.py"}),
        ("from project import users_deep", {"users_deep.py"}),
        ("from project.users_package.part import loss", {"users_package/__init__.py", "users_package/part.py"}),
        ("from .users_losses import loss", {"users_losses.py", "users_deep.py"}),
        ("from . import users_deep", {"users_deep.py"}),
        ("import torch, numpy.linalg", set()),
        ("if TYPE_CHECKING:\n    import users_losses", set()),
    ],
)
def test_a_users_method_counts_with_the_files_beside_it_that_it_imports(tmp_path, monkeypatch, imports, counted):
    folder = tmp_path / "project"
    (folder / "users_package").mkdir(parents=True)
    texts = {
        "users_losses.py": "def loss():\n    from users_deep import deep\n",
        "users_deep.py": "deep = 0",
        "users_package/__init__.py": "",
        "users_package/part.py": "loss = 0",
        "users_other.py": "import users_deep",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    definition = "from epagcl.methods import Method\nclass Mine(Method):\n    def loss(self): ...\n"
    mine = load(folder / "users_method.py", definition, monkeypatch).Mine
    (folder / "users_method.py").write_text(f"{imports}\n{definition}")
    before = code_version(mine)

    def changes(name):
        (folder / name).write_text(add_a_statement(texts[name]))
        after = code_version(mine)
        (folder / name).write_text(texts[name])
        return after != before

    assert {name for name in texts if changes(name)} == counted


def test_modules_of_the_package_count_that_a_file_beside_a_users_method_imports(root, tmp_path, monkeypatch):
    (tmp_path / "users_change.py").write_text("from epagcl.epr.change import epr_change")
    text = "import users_change\n" + USERS_METHOD.format(function="edge_probabilities")
    monkeypatch.syspath_prepend(tmp_path)
    mine = load(tmp_path / "users_method.py", text, monkeypatch).Mine
    assert changed_by(root, "epr/change.py", add_a_statement, mine)


def test_a_module_among_installed_libraries_does_not_count_with_them(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    text = "from epagcl.methods import Method\nclass Mine(Method):\n    def loss(self):\n        import users_library\n"
    mine = load(folder / "users_method.py", text, monkeypatch).Mine
    before = code_version(mine)
    (folder / "users_library.py").write_text("library = 1")
    assert code_version(mine) == before


def test_a_base_class_of_an_installed_library_counts_with_its_file_only(tmp_path, monkeypatch):
    library = tmp_path / "site-packages"
    library.mkdir()
    users_base = "class Base:\n    def run(self):\n        from . import users_part\n"
    load(library / "users_base.py", users_base, monkeypatch)
    text = "from users_base import Base\nfrom epagcl.methods import Method\nclass Mine(Base, Method): ...\n"
    mine = load(tmp_path / "users_method.py", text, monkeypatch).Mine
    before = code_version(mine)
    (library / "users_part.py").write_text("part = 1")
    assert code_version(mine) == before
    (library / "users_base.py").write_text(add_a_statement(users_base))
    assert code_version(mine) != before


def test_a_method_without_a_file_is_refused():
    namespace = {"__name__": "no_such_module"}
    exec("import epagcl.methods.dgi\nclass Typed(epagcl.methods.dgi.DGI): ...", namespace)
    with pytest.raises(InputError, match="Typed: its source cannot be read; define it in a file"):
        code_version(namespace["Typed"])


def test_imports_of_the_same_name_in_two_functions_count_both(tmp_path):
    for name in ("first", "second"):
        (tmp_path / "epagcl" / name).mkdir(parents=True)
        (tmp_path / "epagcl" / name / "__init__.py").write_text("")
        (tmp_path / "epagcl" / name / "work.py").write_text("def run(): ...")
    (tmp_path / "epagcl" / "__init__.py").write_text("")
    text = "def f():\n    from epagcl.first.work import run\ndef g():\n    from epagcl.second.work import run\n"
    (tmp_path / "epagcl" / "both.py").write_text(text)
    expected = {"epagcl.both", "epagcl.first.work", "epagcl.second.work"}
    assert imported_modules("epagcl.both", root=tmp_path) == expected
