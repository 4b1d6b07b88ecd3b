"""The options that name a graph, in every command that takes one."""

import json
from pathlib import Path

import pytest

from epagcl.cli.graph_input import GraphInput, takes_graph
from epagcl.core.errors import InputError
from epagcl.data.io.columns.encoding import TableEncoding
from epagcl.report.content import read_content

DATA = Path(__file__).parents[2] / "examples" / "data"
PAYMENTS = ["--edges", DATA / "transactions/payments.csv", "--features", DATA / "transactions/accounts.csv"]
ENDS = ["--source", "payer", "--target", "payee"]
PROPAGATED = ["--method", "propagated", "--dim", "8", "--device", "cpu", "--map", "none"]


@pytest.mark.parametrize("command", ["embed", "train", "tune", "compare", "epr"])
def test_a_doubtful_edge_list_is_refused_with_the_line_to_write(run, command):
    code, _, err = run(command, *PAYMENTS, "--label", "status")
    assert code == 2
    assert err.splitlines()[-1].endswith(
        "payments.csv: edges may join payer and payee, or tx_id; give --source payer --target payee"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--columns-as", "city"],
            "--columns-as: 'city' is not a pair; give column=kind, as in city=category,notes=skip",
        ),
        (["--columns-as", "town=text"], "--columns-as: accounts.csv has no feature column 'town'; the columns are"),
        (["--columns-as", "city=word"], "--columns-as: city=word: no such kind; choose one of number, boolean,"),
        (["--id", "number"], "--id number: no table has this column; the columns of accounts.csv are account_id,"),
        (["--label", "state"], "accounts.csv: no column 'state' for --label; its columns are account_id, balance,"),
        (["--source", "payer"], "--source is given without --target; give both"),
    ],
)
def test_mistakes_name_the_option(run, options, message):
    ends = [] if "--source" in options else ENDS
    code, _, err = run("embed", *PAYMENTS, *ends, *options)
    assert code == 2
    assert f"epagcl: {message}" in err


def test_options_of_tables_are_refused_for_named_graphs(run):
    code, _, err = run("embed", "demo", "--columns-as", "city=text", "--source", "a", "--target", "b")
    assert (code, err) == (2, "epagcl: demo is a named graph; leave out --source, --target, --columns-as\n")
    assert "epagcl: --name x: demo is a named graph; leave it out" in run("embed", "demo", "--name", "x")[2]
    code, _, err = run("compare", "demo", "--label", "a")
    assert (code, err) == (2, "epagcl: --label a: belongs to --edges; give them, or leave it out\n")


def test_what_is_read_is_printed(run, caplog):
    assert run("embed", *PAYMENTS, *ENDS, "--label", "status", *PROPAGATED)[0] == 0
    assert caplog.messages[:3] == [
        "accounts.csv: ids in account_id, labels in status",
        "accounts.csv: 6 columns become 20 features; number: balance (log, gaps), age (gaps); category: city "
        "(4 values), sector (5 values, gaps); date: opened (time, month, weekday); boolean: verified",
        "payments.csv: edges join payer and payee; not used: tx_id, amount",
    ]


def test_a_model_encodes_the_table_of_tomorrow(run, tmp_path, caplog):
    run("embed", *PAYMENTS, *ENDS, "--columns-as", "skip=status", *PROPAGATED, "--save", "m", "--out", "z.csv")
    encoding = json.loads((tmp_path / "m" / "columns.json").read_text())
    assert [column["kind"] for column in TableEncoding.from_dict(encoding).to_dict()["columns"]] == [
        *("number", "number", "category", "category", "date", "boolean", "skip")
    ]
    tomorrow = (DATA / "transactions/accounts.csv").read_text().replace("Rome", "Paris").replace("crypto", "")
    (tmp_path / "f.csv").write_text(tomorrow)
    files = ["--edges", DATA / "transactions/payments.csv", "--features", "f.csv", *ENDS]
    code, _, err = run("embed", *files, "--model", "m", "--device", "cpu", "--map", "none", "--out", "z2.csv")
    assert code == 0, err
    lines = [line for line in caplog.messages if "columns become" in line]
    assert lines[0].replace("accounts.csv", "f.csv") == lines[1]
    assert "leave it out" in run("embed", *files, "--model", "m", "--columns-as", "city=text", "--out", "z3.csv")[2]


def test_the_name_and_the_columns_stand_in_the_run(run, tmp_path):
    code, _, err = run("train", *PAYMENTS, *ENDS, "--label", "status", "--name", "fraud", *PROPAGATED, "--out", "r")
    assert code == 0, err
    metrics = json.loads((tmp_path / "r" / "metrics.json").read_text())
    assert metrics["graph"]["name"] == "fraud"
    assert metrics["graph"]["columns"][0] == {"name": "balance", "kind": "number", "words": "log, gaps", "features": 2}
    card = (tmp_path / "r" / "README.md").read_text()
    assert "| city | category | 4 values | 4 |" in card
    assert (
        'data = epagcl.read_graph(edges="payments.csv", features="accounts.csv", source="payer", target="payee"' in card
    )
    config = (tmp_path / "r" / "config.toml").read_text()
    assert 'source = "payer"' in config
    facts = dict(read_content(tmp_path / "r")["facts"])
    assert facts["Feature columns"].startswith("number: balance (log, gaps), age (gaps); category: city (4 values)")
    assert "city" in (tmp_path / "r" / "nodes.csv").read_text().splitlines()[0]


@pytest.mark.slow
def test_compare_takes_tables(run, tmp_path, caplog):
    files = [f"--{part}={DATA}/proteins/{file}" for part, file in PROTEINS.items()]
    command = ["compare", *files, "--methods", "propagated", "--seeds", 1, "--protocols", "strict", "--device", "cpu"]
    code, out, err = run(*command, "--out", tmp_path / "c", "--json")
    assert code == 0, err
    assert next(row["row"] for row in json.loads(out)["results"]["interactions"]) == "raw features"
    assert "interactions.tsv: edges join protein1 and protein2; not used: combined_score" in caplog.messages


PROTEINS = {"edges": "interactions.tsv", "features": "proteins.tsv", "labels": "functions.tsv"}


def test_epr_of_a_bipartite_graph(run):
    edges = ["--edges", DATA / "ratings/ratings.csv"]
    code, _, err = run("epr", *edges)
    assert code == 2
    assert "40 ids (1, 26, 16, ...) in user_id and in item_id; if these are two kinds of nodes, give --bipartite" in err
    code, _, err = run("epr", *edges, "--bipartite")
    assert "no labels and no features" in err


def test_the_words_of_the_command_line():
    inputs = GraphInput(edges=Path("my e.csv"), bipartite=True, columns_as="a=text", data=Path("root"))
    assert inputs.words() == "--edges 'my e.csv' --bipartite --columns-as a=text"
    assert GraphInput(graph="cora").words() == "cora"


def test_a_command_gets_one_object():
    seen = []

    @takes_graph("labels", "nodes")
    def command(inputs: GraphInput, more: int = 3) -> None:
        seen.append((inputs, more))

    options = {name: None for name in command.__annotations__ if name not in ("more", "bipartite")}
    assert "labels" not in options
    command(**options | {"graph": "cora", "bipartite": False, "more": 4})
    assert seen == [(GraphInput(graph="cora"), 4)]
    with pytest.raises(InputError, match=r"^--columns-as: 'x' is not a pair"):
        GraphInput(columns_as="x").roles()


@pytest.mark.slow
def test_kinds_and_directions_from_training_to_tomorrow(run, tmp_path, caplog):
    folder = DATA / "organisation"
    graph = ["--edges", folder / "contacts.csv", "--features", folder / "people.csv"]
    both = [*graph, "--label", "team", "--directed", "both"]
    code, _, err = run("train", *both, *PROPAGATED, "--out", "r")
    assert code == 0, err
    assert "contacts.csv: edges join source and target, of the kinds in type" in caplog.messages
    names = [f"{kind}:{way}" for way in ("out", "in") for kind in ("call", "mail", "manages")]
    metrics = json.loads((tmp_path / "r" / "metrics.json").read_text())
    assert [relation["name"] for relation in metrics["graph"]["relations"]] == names
    assert dict(read_content(tmp_path / "r")["facts"])["Relations"].startswith("call:out (")
    assert 'directed="both"' in (tmp_path / "r" / "README.md").read_text()
    code, _, err = run("embed", *graph, "--directed", "both", "--model", "r", "--out", "z.csv")
    assert code == 0, err
    code, _, err = run("embed", *graph, "--model", "r", "--out", "z.csv")
    assert code == 2
    assert "the model was trained on the edges call:out, mail:out" in err
    assert "(--type, --directed)" in err
    caplog.clear()
    code, _, err = run("embed", *graph, "--method", "dgi", "--epochs", 1, "--out", "z2.csv", "--map", "none")
    assert code == 0, err
    assert "dgi merges the 3 kinds of edges; epagcl+ and propagated use them" in caplog.messages


def test_unknown_directions_and_kinds_name_the_option(run):
    edges = ["--edges", DATA / "organisation/contacts.csv", "--features", DATA / "organisation/people.csv"]
    code, _, err = run("embed", *edges, "--directed", "up", "--out", "z.csv")
    assert code == 2
    assert "--directed up: unknown; give one of symmetric, both, in, out" in err
    code, _, err = run("embed", *edges, "--type", "colour", "--out", "z.csv")
    assert code == 2
    assert "no column 'colour' for --type" in err
