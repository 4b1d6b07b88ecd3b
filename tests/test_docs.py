"""Code in README and docs runs; figures in README are those of the result files."""

import re
from pathlib import Path

import pytest

from benchmarks.tables import PAGES as TABLE_PAGES
from benchmarks.tables import with_tables

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_python_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", TABLE_PAGES, ids=[page.name for page in TABLE_PAGES])
def test_tables_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert with_tables(text) == text
    assert text.count("\n|---") > 2


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_every_command_in_the_documentation_exists():
    from epagcl.cli import app

    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    commands |= {group.name for group in app.registered_groups}
    for page in PAGES:
        for command in re.findall(r"^epagcl (\w+)|`epagcl (\w+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            assert "".join(command) in commands
