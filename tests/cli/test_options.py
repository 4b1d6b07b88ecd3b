import json

import pytest

from epagcl.cli.options import WithSettings, names_in, with_option_names
from epagcl.cli.paper import ArtefactCommand
from epagcl.cli.tune import TuneCommand
from tests.cli.conftest import FAST


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("t: give another folder=, or resume=True", "t: give another --out, or --resume"),
        ("metric='foo': choose one of cosine, euclidean", "--metric foo: choose one of cosine, euclidean"),
        ("k=1: give 2 to 64 clusters for 80 nodes", "--k 1: give 2 to 64 clusters for 80 nodes"),
        ("min_size=0: must be at least 2", "--min-size 0: must be at least 2"),
        (
            "k=auto: needs at least 6 nodes, and there are 4; give k=",
            "--k auto: needs at least 6 nodes, and there are 4; give --k",
        ),
        (
            "t: already exists; give another folder=, resume=True to continue it, or overwrite=True",
            "t: already exists; give another --out, --resume to continue it, or --overwrite",
        ),
        (
            "t: no run of one seed to resume; leave out resume=True to start one",
            "t: no run of one seed to resume; leave out --resume to start one",
        ),
        (
            "t: already exists; give another save=, or overwrite=True",
            "t: already exists; give another --save, or --overwrite",
        ),
        ("give out= or projector=", "give --out or --projector"),
        ("set root= to a folder", "set --data to a folder"),
        ("columns=: no ids", "--columns: no ids"),
        ("lr=0.1: must be lower", "lr=0.1: must be lower"),  # a value of the user
        ("kind='star': choose one of pca", "kind='star': choose one of pca"),
        ("minutes=0: must be positive", "--minutes 0: must be positive"),
        ("trials=0: must be a whole number", "--trials 0: must be a whole number"),
        ("ratios=(0.5, 0.6): give two shares", "--ratios 0.5,0.6: give two shares"),
        ("protocol='paper': choose strict", "--protocol paper: choose strict"),
        ("protocol='a:b': choose strict", "--protocol a:b: choose strict"),
        ("data.out=: no argument", "data.out=: no argument"),
    ],
)
def test_errors_of_the_library_name_options(message, expected):
    assert with_option_names(message) == expected


def test_names_are_separated_by_commas():
    assert names_in("grace, gca*,,dgi ") == ["grace", "gca*", "dgi"]
    assert names_in("") == []


@pytest.fixture
def words(monkeypatch):
    """Return the words of a command line after list options are repeated."""
    monkeypatch.setattr(WithSettings, "parse_args", lambda self, context, arguments: arguments)

    def parse(command, *arguments):
        return command.parse_args(command.__new__(command), None, list(arguments))

    return parse


def test_a_list_option_is_repeated_before_each_word(words):
    assert words(ArtefactCommand, "--datasets", "cora", "demo", "--runs", "2") == [
        *("--datasets", "cora", "--datasets", "demo", "--runs", "2")
    ]
    assert words(ArtefactCommand, "--datasets=cora", "--methods", "a,b") == ["--datasets=cora", "--methods", "a,b"]


def test_a_word_that_is_no_part_of_the_list_ends_it(words):
    assert words(TuneCommand, "--space", "default", "lr=0:1", "cora", "dim=1,2") == [
        *("--space", "default", "--space", "lr=0:1", "cora", "dim=1,2")
    ]


@pytest.mark.slow
def test_the_earlier_name_of_a_renamed_option_is_accepted(run):
    code, out, err = run("train", "demo", *FAST, "--runs", 1, "--json", "--scale-features", "row-max")
    assert code == 0, err
    assert json.loads(out)["method"]["feature_scaling"] == "row-max"


@pytest.mark.slow
def test_the_earlier_value_of_a_setting_is_accepted(run, tmp_path):
    method = ("train", "demo", *FAST, "--method", "epagcl", "--runs", 1, "--no-references", "--json")
    code, out, err = run(*method, "--drop", "eq7")
    assert code == 0, err
    assert json.loads(out)["method"]["drop"] == "eq9"
    (tmp_path / "former.toml").write_text('[method]\nname = "epagcl"\nadd = "eq7"\n')
    code, out, err = run(*method, "--config", tmp_path / "former.toml", "--overwrite")
    assert code == 0, err
    assert json.loads(out)["method"]["add"] == "eq9"


@pytest.mark.slow
def test_options_are_written_with_hyphens_or_underscores(run):
    for option in ("--p-drop-1", "--p_drop_1"):
        code, out, _ = run(
            "train", "demo", *FAST, "--runs", 1, "--no-references", "--json", option, "0.15", "--overwrite"
        )
        assert code == 0
        assert json.loads(out)["method"]["p_drop_1"] == 0.15
