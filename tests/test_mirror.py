"""Tests mirror the package: the tests of ``epagcl/a/b.py`` are in ``tests/a/test_b.py``."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Modules whose tests are elsewhere: the file of the tests, and the reason.
EXEMPT = {
    "epagcl/methods/__init__.py": ("tests/test_public_api.py", "only makes the package callable"),
    "epagcl/methods/recipes/__init__.py": ("tests/methods/test_recipes.py", "the package has no other module"),
    "epagcl/paper/__init__.py": ("tests/test_paper.py", "lists the artefacts, which are tested together"),
}


def mirrored_path(module: Path) -> Path:
    """Return the path of the tests of a module, relative to the repository."""
    return Path("tests", *module.parts[1:-1], f"test_{module.name}")


def modules_with_logic() -> list[Path]:
    """Return the modules that define functions or classes, relative to the repository."""
    return [
        path.relative_to(ROOT)
        for path in sorted(ROOT.glob("epagcl/**/*.py"))
        if any(
            isinstance(node, ast.FunctionDef | ast.ClassDef)
            for node in ast.parse(path.read_text(encoding="utf-8")).body
        )
    ]


def test_every_module_has_its_tests():
    missing = [
        f"{module.as_posix()} -> {mirrored_path(module).as_posix()}"
        for module in modules_with_logic()
        if module.as_posix() not in EXEMPT and not (ROOT / mirrored_path(module)).is_file()
    ]
    assert not missing


@pytest.mark.parametrize("module", EXEMPT)
def test_exempt_modules_are_tested_elsewhere(module):
    tests, _ = EXEMPT[module]
    assert (ROOT / tests).is_file()
    assert Path(module) in modules_with_logic()
    assert not (ROOT / mirrored_path(Path(module))).is_file()
