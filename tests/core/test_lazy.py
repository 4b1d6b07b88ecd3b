import subprocess
import sys

import pytest

from epagcl.core.lazy import attach


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with lazy names: a submodule, an attribute, a renamed attribute, and a submodule of a subpackage."""
    files = {
        "lazily/__init__.py": """
            from typing import TYPE_CHECKING
            from epagcl.core.lazy import attach
            if TYPE_CHECKING:
                from lazily import tools as tools
                from lazily.tools import hammer as hammer
                from lazily.tools import saw as long_saw
                from lazily.sub import leaf as leaf
            __getattr__, __dir__ = attach(__name__, __file__)
        """,
        "lazily/tools.py": "hammer, saw = 'a hammer', 'a saw'",
        "lazily/sub/__init__.py": "",
        "lazily/sub/leaf.py": "colour = 'green'",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(line.removeprefix(" " * 12) for line in text.splitlines()))
    monkeypatch.syspath_prepend(tmp_path)
    import lazily

    yield lazily
    for name in [name for name in sys.modules if name.split(".")[0] == "lazily"]:
        del sys.modules[name]


def test_names_are_imported_on_first_use(package):
    assert "lazily.tools" not in sys.modules
    assert package.hammer == "a hammer"
    assert "lazily.tools" in sys.modules


def test_submodules_and_renamed_names(package):
    assert package.tools.__name__ == "lazily.tools"
    assert package.long_saw == "a saw"
    assert package.leaf.colour == "green"


def test_all_and_dir_list_the_names(package):
    assert package.__all__ == ["hammer", "leaf", "long_saw", "tools"]
    assert dir(package) == ["__version__", "hammer", "leaf", "long_saw", "tools"]


def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="module 'lazily' has no attribute 'nail'"):
        _ = package.nail


def test_an_error_inside_a_module_is_not_hidden(package, tmp_path):
    (tmp_path / "lazily" / "tools.py").write_text("import sys\nsys.no_such_name")
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = package.hammer


def test_imports_outside_the_type_checking_block_are_not_public(tmp_path):
    (tmp_path / "a.py").write_text("from os import path\nif True:\n    from os import sep\n")
    assert attach("a", str(tmp_path / "a.py"))[0]("__all__") == []


@pytest.mark.slow
def test_the_package_does_not_import_torch_before_it_is_used():
    code = "import sys, epagcl; assert 'torch' not in sys.modules; epagcl.info_nce; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
