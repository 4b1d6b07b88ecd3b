import errno
import json
import os
from unittest.mock import Mock

import pytest
import torch

from epagcl.cli.loaded_graph import LoadedGraph
from epagcl.core.errors import OutputError
from epagcl.data import block_model, write_npz
from epagcl.evaluation.protocol import Rule
from epagcl.study.summary import read_comparison


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
        "propagated",
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
    assert len(list((tmp_path / "demo").rglob("*.json"))) == 6 * 2
    monkeypatch.setattr("epagcl.study.scoring.provenance", lambda *_: pytest.fail("trained again"))
    code, out, _ = run(*command, "--json")
    assert [row["row"] for row in json.loads(out)["results"]["demo"]] == [
        "raw features",
        "untrained encoder",
        "propagated",
        "GCN",
        "DGI",
        "GCA*",
    ]


@pytest.mark.slow
def test_compare_with_the_own_untrained_encoder_of_each_method(run, tmp_path, small_graphs):
    command = ["compare", small_graphs[0], *SMALL, "--untrained", "--out", tmp_path / "store", "--json"]
    code, out, err = run(*command)
    assert code == 0, err
    found = {row["row"]: row for row in json.loads(out)["results"]["one"]}
    titles = ["raw features", "untrained DGI", "untrained GRACE", "propagated", "DGI", "GRACE"]
    assert list(found) == titles
    assert found["untrained DGI"]["training"]["epochs"] == found["propagated"]["training"]["epochs"] == [0, 0]
    assert found["propagated"]["settings"]["dim"] == found["DGI"]["settings"]["dim"] == 8


@pytest.fixture
def small_graphs(tmp_path):
    """Two small graphs with labels, as files."""
    paths = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for seed, path in enumerate(paths):
        write_npz(block_model(60, num_classes=3, num_features=20, topic_words=5, words_per_node=5, seed=seed), path)
    return paths


SMALL = ["--methods", "dgi,grace", "--seeds", 2, "--protocols", "strict", "--device", "cpu"]
SMALL += ["--epochs", 2, "--hidden", 8, "--dim", 8]


@pytest.mark.slow
def test_several_graphs_are_ranked_from_stored_results(run, tmp_path, monkeypatch, small_graphs):
    store = ["--out", tmp_path / "store"]
    for graph in small_graphs:  # one command for each graph, as processes that share a GPU would run
        assert run("compare", graph, *SMALL, *store, "--quiet")[0] == 0
    monkeypatch.setattr("epagcl.study.scoring.provenance", lambda *_: pytest.fail("trained again"))
    files = ["--save", tmp_path / "new" / "c.json", "--figure", tmp_path / "ranks.svg"]
    code, out, err = run("compare", *small_graphs, *SMALL, *store, *files, "--stored")
    assert code == 0, err
    assert "not stored" not in err
    for words in (
        "Test accuracy in percent on 2 graphs, protocol strict",
        "method one two mean rank",
        "2 seeds",
        "CD ",
    ):
        assert words in " ".join(out.split())
    assert "critical difference" in (tmp_path / "ranks.svg").read_text()
    content = read_comparison(tmp_path / "new" / "c.json")
    assert content["command"].startswith("epagcl compare ")
    assert list(content["results"]) == ["one", "two"]
    assert set(content["ranking"]["mean_ranks"]) >= {"raw features", "untrained encoder", "DGI", "GRACE"}
    code, out, _ = run("compare", *small_graphs, *SMALL, *store, "--stored", "--json")
    printed = json.loads(out)
    assert printed["ranking"] == content["ranking"]
    assert [cell["row"] for cell in printed["results"]["one"]] == [cell["row"] for cell in content["results"]["one"]]


@pytest.mark.slow
def test_only_stored_results_are_shown(run, tmp_path, monkeypatch, small_graphs, caplog):
    store = ["--out", tmp_path / "store"]
    code, _, err = run("compare", *small_graphs, *SMALL, *store, "--stored")
    assert code == 2
    assert "runs; leave out --stored to compute them" in err
    assert run("compare", small_graphs[0], *SMALL, *store, "--quiet")[0] == 0
    monkeypatch.setattr("epagcl.study.scoring.provenance", lambda *_: pytest.fail("trained"))
    code, out, err = run("compare", *small_graphs, *SMALL, *store, "--stored")
    assert code == 0, err
    assert "10 of 20 runs are not stored; without --stored they are computed" in caplog.text
    assert out.count("DGI") == 1  # the table of the graph that has results


def test_damaged_records_are_not_stored_and_computed_again(run, tmp_path, small_graphs, caplog):
    command = ["compare", small_graphs[0], *SMALL, "--out", tmp_path / "store"]
    assert run(*command, "--quiet")[0] == 0
    records = sorted((tmp_path / "store").rglob("*.json"))
    damaged = [json.dumps({"key": json.loads(records[0].read_text())["key"]}), "null", "[]", "{}"]
    for path, text in zip(records, damaged, strict=False):
        path.write_text(text)
    code, _, err = run(*command, "--stored")
    assert (code, "Traceback" in err) == (0, False)
    assert f"4 of {len(records)} runs are not stored" in caplog.text
    assert run(*command, "--quiet") == (0, "", "")
    assert all("protocols" in json.loads(path.read_text()) for path in records)


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
        (["demo", "cora", "--figure", "f.jpg"], "--figure f.jpg: must end in .svg or .png"),
        (["demo", "--figure", "f.svg"], "--figure needs at least two graphs"),
        (["demo", "--features", "f.csv"], "epagcl: --features f.csv: belongs to --edges; give them, or leave it out"),
    ],
)
def test_mistakes_are_named(run, arguments, message):
    code, _, err = run("compare", *arguments)
    assert code == 2
    assert message in err


@pytest.fixture
def no_training(monkeypatch):
    """Fail as soon as anything is trained."""
    monkeypatch.setattr("epagcl.study.comparison.fill", lambda *_: pytest.fail("trained"))


@pytest.mark.parametrize(("option", "name"), [("--save", "c.json"), ("--figure", "f.svg")])
def test_an_output_that_is_a_folder_is_named_before_training(run, tmp_path, small_graphs, no_training, option, name):
    (tmp_path / name).mkdir()
    code, out, err = run("compare", *small_graphs, *SMALL, option, tmp_path / name)
    assert (code, out) == (2, "")
    assert err == f"epagcl: {option} {tmp_path / name}: is a folder; give the name of a file\n"


def test_a_file_in_place_of_a_folder_is_named_before_training(run, tmp_path, no_training):
    file = tmp_path / "afile"
    file.touch()
    for out in (file, file / "inner"):
        code, _, err = run("compare", "demo", "--out", out)
        assert (code, err) == (2, f"epagcl: {file}: is a file, not a folder; give another --out\n")
    code, _, err = run("compare", "demo", "--save", file / "c.json")
    assert code == 2
    assert err.startswith(f"epagcl: --save {file}/c.json: cannot be written (")


def test_a_folder_without_permission_is_named_before_training(run, tmp_path, small_graphs, no_training, monkeypatch):
    def refused(**_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("epagcl.core.outputs.tempfile.TemporaryFile", refused)  # root may write everywhere
    code, _, err = run("compare", *small_graphs, *SMALL, "--figure", tmp_path / "f.svg")
    assert code == 2
    assert "f.svg: cannot be written (Permission denied); give another path" in err


def test_a_figure_of_one_observation_is_refused_before_training(run, monkeypatch, no_training):
    """Texas and Cornell have the same nodes. They count as one graph, unless one of them is a user's own."""
    data = block_model(60, num_classes=3, num_features=20, topic_words=5, words_per_node=5)
    monkeypatch.setattr(
        "epagcl.cli.compare._load", lambda names, _: [LoadedGraph(name.title(), data, {}) for name in names]
    )
    code, _, err = run("compare", "cornell", "texas", *SMALL, "--figure", "z.svg")
    assert code == 2
    assert err == (
        "epagcl: --figure z.svg: Cornell and Texas have the same nodes and count as one graph; "
        "add a graph, or leave --figure out\n"
    )


def test_a_figure_counts_the_graphs_with_splits_of_the_protocol(run, tmp_path, small_graphs, no_training):
    masks = torch.arange(60) % 3
    data = block_model(60, num_classes=3, num_features=20, topic_words=5, words_per_node=5)
    data.train_mask, data.val_mask, data.test_mask = masks == 0, masks == 1, masks == 2
    torch.save(data, tmp_path / "split.pt")
    options = [*SMALL, "--protocols", "public,strict", "--figure", tmp_path / "z.svg"]
    with pytest.raises(pytest.fail.Exception, match="trained"):  # strict ranks, and both graphs have its splits
        run("compare", tmp_path / "split.pt", small_graphs[0], *options)
    options[options.index("public,strict")] = "public,paper"
    code, _, err = run("compare", tmp_path / "split.pt", small_graphs[0], *options)
    assert code == 2
    assert "z.svg: only split has splits of the protocol public, by which rows are ranked; add a graph" in err


@pytest.mark.slow
def test_tables_are_shown_before_a_file_that_cannot_be_written(run, tmp_path, small_graphs, monkeypatch):
    error = OutputError("c.json: cannot be written (No space left on device)")
    monkeypatch.setattr("epagcl.study.summary.write_json", Mock(side_effect=error))
    code, out, err = run("compare", small_graphs[0], *SMALL, "--out", tmp_path / "s", "--save", tmp_path / "c.json")
    assert code == 2
    assert "GRACE" in out
    assert err.endswith(f"epagcl: {error}\n")


@pytest.mark.slow
def test_names_count_once_and_protocols_without_splits_have_no_column(run, tmp_path, small_graphs):
    """One seed has no deviation."""
    options = [*SMALL, "--seeds", 1, "--methods", "grace,grace", "--protocols", "public,strict,strict"]
    code, out, err = run("compare", *small_graphs, *options, "--out", tmp_path / "s")
    assert code == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert ["accuracy", "strict", "seeds", "epochs", "s", "a", "model", "settings"] in lines
    assert sum(line[:1] == ["GRACE"] for line in lines) == 2 * 1 + 1 + 1  # two graphs, all of them, the diagram
    assert "±" not in out
    assert "1 seed: seed k" in " ".join(out.split())
