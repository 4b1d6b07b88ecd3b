import json
from dataclasses import replace

import pytest

from epagcl.cli import paper as commands
from epagcl.evaluation.protocol import Rule
from epagcl.paper import ARTEFACTS, find_artefact
from tests.cli.conftest import assert_refused

TINY = ["--epochs", 2, "--hidden", 8, "--dim", 8, "--projection", 8, "--device", "cpu"]


@pytest.fixture(autouse=True)
def short_paper_protocol(monkeypatch):
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 20, 1, False, True))


def test_without_a_subcommand_the_artefacts_are_listed(run):
    code, out, _ = run("paper")
    assert code == 0
    for name, entry in ARTEFACTS.items():
        assert name in out
        assert entry.source in out


@pytest.mark.parametrize("name", list(ARTEFACTS))
def test_every_artefact_has_the_same_options(run, name):
    code, out, _ = run("paper", name, "--help")
    assert code == 0
    assert ARTEFACTS[name].source in out
    for option in ("--datasets", "--methods", "--runs", "--protocol", "--device", "--stored", "--out", "--json"):
        assert option in out
    assert find_artefact(name).name == name


@pytest.mark.slow
def test_lists_are_written_with_spaces_or_commas(run, tmp_path):
    words = ["--datasets", "demo", "--methods", "epagcl", "gca*", "--runs", 1, "--protocol", "strict", "paper"]
    code, out, err = run("paper", "accuracy", *words, *TINY, "--json")
    assert code == 0, err
    asked = json.loads(out)["asked"]
    assert asked["methods"] == ["epagcl", "gca*"]
    assert asked["protocols"] == ["strict", "paper"]
    commas = ["--datasets=demo", "--methods", "epagcl,gca*", "--runs", 1, "--protocol", "strict,paper"]
    code, out, err = run("paper", "accuracy", *commas, *TINY, "--json", "--stored")
    assert code == 0, err
    again = json.loads(out)
    assert again["asked"] == asked
    assert len(again["cells"]) == 5  # all from the store
    assert "--stored" not in again["command"]
    assert {path.name for path in (tmp_path / "runs" / "paper").iterdir()} >= {"accuracy.json", "accuracy.png", "store"}


@pytest.mark.slow
def test_the_table_its_note_and_the_reading_are_printed(run, caplog):
    words = ["--datasets", "demo", "--methods", "epagcl", "--runs", 1, "--protocol", "strict"]
    with caplog.at_level("INFO", "epagcl"):
        code, out, err = run("paper", "accuracy", *words, *TINY)
    assert code == 0, err
    for part in ("Accuracy of every method (Table 2)", "untrained encoder", "Protocol strict", "written: runs/paper/"):
        assert part in out
    assert "**" not in out
    assert "raw features of demo" in caplog.text  # what is being done


@pytest.mark.slow
def test_quiet_prints_nothing(run):
    words = ["--datasets", "demo", "--methods", "epagcl", "--runs", 1, "--protocol", "strict", "--quiet"]
    code, out, err = run("paper", "accuracy", *words, *TINY)
    assert (code, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["accuracy", "--datasets", "coar"], "did you mean Cora?"),
        (["accuracy", "--methods", "gcl"], "no method 'gcl'"),
        (["accuracy", "--protocol", "loose"], "--protocol loose: choose from strict, paper, public"),
        (["accuracy", "--runs", "-1"], "--runs -1: at least 1"),
        (["accuracy", "--seed", "3"], "no option --seed"),
        (["accuracy", "--epcohs", "3"], "no option --epcohs; did you mean --epochs?"),
        (["accuracy", "--device", "tpu"], "device='tpu' is not available here"),
        (["accuracy", "--datasets", "demo", "--methods", "epagcl", "--epochs", "-1"], "epochs=-1: must be at least 0"),
        (["acuracy"], "acuracy"),
        (["page", "--results", "nowhere"], "nowhere: no results"),
    ],
)
def test_mistakes_are_one_line(run, arguments, message):
    assert_refused(run, ["paper", *arguments], message)


@pytest.mark.slow
def test_all_artefacts_share_one_store(run, tmp_path, monkeypatch):
    few = {name: ARTEFACTS[name] for name in ("accuracy", "heterophily", "epr")}
    small = {"datasets": ("demo",), "methods": ("epagcl",), "protocols": ("strict",)}
    monkeypatch.setattr(commands, "ARTEFACTS", few)
    monkeypatch.setattr(commands, "find_artefact", lambda name: replace(find_artefact(name), **small))
    code, _, err = run("paper", "all", "--runs", 1, *TINY)
    assert code == 0, err
    folder = tmp_path / "runs" / "paper"
    assert {path.name for path in folder.glob("*.json")} == {"accuracy.json", "heterophily.json", "epr.json"}
    runs = [path for path in (folder / "store" / "demo").rglob("*.json") if path.parent.name != "epr"]
    assert len(runs) == 4  # features, untrained, propagated, EPAGCL: once for both tables
    code, _, err = run("paper", "page", "--results", folder, "--docs", tmp_path / "page")
    assert code == 0, err
    text = (tmp_path / "page" / "results.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == 6  # the first page, claims, three artefacts, and what is missing
