import importlib
import sys
import warnings

import pytest

import epagcl
from epagcl.core import moved
from epagcl.core.moved import MOVED, PERMANENT, moved_names


@pytest.fixture
def first_import(monkeypatch):
    """Import a module as if for the first time, and return it with the package's warnings."""

    def run(path):
        importlib.import_module(MOVED[path])  # so that only warnings about the path remain
        for name in (path, path.rpartition(".")[0]):
            if name in MOVED:
                monkeypatch.delitem(sys.modules, name, raising=False)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            module = importlib.import_module(path)
        return module, [str(w.message) for w in caught if issubclass(w.category, DeprecationWarning)]

    return run


@pytest.mark.parametrize("old", [path for path in MOVED if path not in PERMANENT])
def test_a_deprecated_path_imports_the_module_and_names_its_new_path(first_import, old):
    module, messages = first_import(old)
    assert module is sys.modules[MOVED[old]]
    assert module.__name__ == MOVED[old]
    assert module.__spec__.name == MOVED[old]
    assert f"{old} is now {MOVED[old]}" in messages


@pytest.mark.parametrize("old", PERMANENT)
def test_a_permanent_path_imports_without_a_warning(first_import, old):
    module, messages = first_import(old)
    assert module is sys.modules[MOVED[old]]
    assert messages == []
    assert getattr(epagcl, old.removeprefix("epagcl.")) is module


def test_names_of_a_moved_module_import_and_the_warning_points_to_the_import(monkeypatch):
    monkeypatch.delitem(sys.modules, "epagcl.sparse", raising=False)
    with pytest.warns(DeprecationWarning, match=r"epagcl\.sparse is now epagcl\.core\.sparse") as caught:
        from epagcl.sparse import SparseMatrix
    from epagcl.core.sparse import SparseMatrix as Current

    assert SparseMatrix is Current
    assert caught[0].filename == __file__


def test_submodules_of_a_moved_package_are_not_loaded_twice(monkeypatch):
    monkeypatch.delitem(sys.modules, "epagcl.tuning.space", raising=False)
    with pytest.warns(DeprecationWarning, match=r"epagcl\.tuning\.space is now epagcl\.study\.tuning\.space"):
        module = importlib.import_module("epagcl.tuning.space")
    assert module is importlib.import_module("epagcl.study.tuning.space")


def test_a_second_import_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("epagcl.config")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        importlib.import_module("epagcl.config")


def test_importing_old_paths_does_not_replace_public_names():
    public = {name: getattr(epagcl, name) for name in epagcl.__all__}
    data = {name: getattr(epagcl.data, name) for name in epagcl.data.__all__}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for old in MOVED:
            importlib.import_module(old)
    assert {name: getattr(epagcl, name) for name in public} == public
    assert {name: getattr(epagcl.data, name) for name in data} == data


def test_unknown_modules_stay_unknown():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'epagcl\.nothing'"):
        importlib.import_module("epagcl.nothing")


def test_installing_twice_adds_one_finder():
    before = list(sys.meta_path)
    moved.install()
    assert sys.meta_path == before


def test_moved_names_warn_and_unknown_names_are_an_attribute_error():
    load_name = moved_names("epagcl.data", {"write_json": "epagcl.core.files.write_json"})
    with pytest.warns(DeprecationWarning, match=r"^epagcl\.data\.write_json is now epagcl\.core\.files\.write_json$"):
        function = load_name("write_json")
    assert function is importlib.import_module("epagcl.core.files").write_json
    with pytest.raises(AttributeError, match=r"module 'epagcl\.data' has no attribute 'nothing'"):
        load_name("nothing")


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [
        ("epagcl.data", "write_embeddings", "epagcl.runs.write_embeddings"),
        ("epagcl.data", "write_projector", "epagcl.runs.write_projector"),
        ("epagcl.views", "share_of_large", "epagcl.views.normalise_from_min"),
        ("epagcl.views", "share_of_small", "epagcl.views.normalise_from_max"),
    ],
)
def test_a_deprecated_name_gives_the_current_object(package, old, new):
    module, _, name = new.rpartition(".")
    with pytest.warns(DeprecationWarning, match=f"{package}.{old} is now {new}"):
        assert getattr(importlib.import_module(package), old) is getattr(importlib.import_module(module), name)
