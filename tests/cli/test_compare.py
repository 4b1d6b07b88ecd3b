import json

import pytest

from epagcl.evaluation.protocol import Rule


@pytest.mark.slow
def test_compare_prints_every_row_and_continues_where_it_stopped(run, tmp_path, monkeypatch):
    monkeypatch.setattr("epagcl.evaluation.protocol.PAPER", Rule((0.0,), 20, 1, False, True))
    command = ["compare", "demo", "--methods", "gcn,dgi,gca*", "--seeds", 2, "--epochs", 2, "--device", "cpu"]
    command += ["--out", tmp_path]
    code, out, err = run(*command)
    assert code == 0, err
    for words in (
        "raw features",
        "untrained encoder",
        "GCN",
        "DGI",
        "GCA*",
        "strict",
        "paper",
        "the paper",
        "seeds",
        "ours",
    ):
        assert words in out
    assert len(list((tmp_path / "demo").rglob("*.json"))) == 5 * 2
    monkeypatch.setattr("epagcl.study.scoring.provenance", lambda *_: pytest.fail("trained again"))
    code, out, _ = run(*command, "--json")
    assert [row["row"] for row in json.loads(out)["demo"]] == [
        "raw features",
        "untrained encoder",
        "GCN",
        "DGI",
        "GCA*",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--methods", "gcl"], "no method 'gcl'"),
        (["demo", "--protocols", "loose"], "--protocols loose: choose from strict, paper, public"),
        (["demo", "--methods", "dgi", "--temperature", "0.3"], "no option --temperature"),
        (["demo", "--seeds", "0"], "--seeds must be at least 1"),
        (["coar"], "did you mean Cora?"),
        (["demo", "--seed", "3"], "no option --seed"),
        (["demo", "--methods", "dgi,bgrl", "--norm", "foo"], "norm='foo': choose one of batch, layer"),
        (["demo", "demo"], "two graphs have the same name"),
        (["demo", "--protocols", "public"], "demo: no published split"),
    ],
)
def test_mistakes_are_named(run, arguments, message):
    code, _, err = run("compare", *arguments)
    assert code == 2
    assert message in err
