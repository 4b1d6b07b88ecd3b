import shlex

import pytest

import epagcl
from epagcl.report.verdict import verdict_content


def finding(name="uniformity", verdict="good"):
    return {"name": name, "value": 0.0, "shown": "12%", "verdict": verdict, "words": "Some words."}


def scores(own, **references):
    rows = [{"name": name.replace("_", " "), "accuracy": value, "std": 0.01} for name, value in references.items()]
    return {"rows": [*rows, {"name": "DGI", "accuracy": own, "std": 0.02}]}


@pytest.mark.parametrize(
    ("own", "verdict", "headline"),
    [
        (0.90, "good", "Good: it beats every reference on the labels."),
        (0.815, "fair", "Usable, but no better than the reference “propagated”."),  # within its standard deviation
        (0.785, "fair", "Usable, but no better than the reference “propagated”."),
        (0.70, "poor", "Poor: the reference “propagated” is better."),
    ],
)
def test_accuracy_against_the_best_reference_decides(own, verdict, headline):
    answer = verdict_content([finding()], scores(own, raw_features=0.6, propagated=0.8), "DGI", "mine")
    assert (answer["verdict"], answer["headline"]) == (verdict, headline)
    side = "above" if own > 0.8 else "below"
    words = f"Accuracy is {100 * own:.1f}%, {abs(100 * own - 80):.1f} points {side} the best reference"
    assert answer["reasons"][0].startswith(words)


def test_poor_health_lowers_the_verdict_of_accuracy():
    answer = verdict_content([finding("effective rank", "poor")], scores(0.9, raw_features=0.6), "DGI", "mine")
    assert answer["verdict"] == "fair"
    assert answer["headline"].endswith("But see effective rank below.")
    answer = verdict_content([finding("effective rank", "fair")], scores(0.9, raw_features=0.6), "DGI", "mine")
    assert answer["verdict"] == "good"
    assert "Effective rank is fair (12%): Some words." in answer["reasons"]


@pytest.mark.parametrize(
    ("names", "verdict", "headline"),
    [
        (["uniformity"], "good", "Good, as far as can be told without labels."),
        (["alignment"], "fair", "Probably usable: alignment is not in the usual range."),
        (["alignment", "uniformity"], "poor", "Poor: alignment and uniformity show that something went wrong."),
        (["kept features"], "poor", "Poor: it says less about the nodes than the features it comes from."),
    ],
)
def test_without_references_health_decides(names, verdict, headline):
    answer = verdict_content([finding(name, verdict) for name in names], None, "DGI", "mine")
    assert (answer["verdict"], answer["headline"]) == (verdict, headline)
    assert answer["reasons"][-1] == "Whether it serves your task, only labels of some nodes can tell."


def test_accuracy_without_references_says_what_is_lacking():
    answer = verdict_content([finding()], scores(0.9), "DGI", "mine")
    assert answer["reasons"][0] == "Accuracy is 90.0%."
    assert answer["reasons"][-1].endswith("it was not compared with that of raw and propagated features.")


def test_a_run_without_measures():
    answer = verdict_content([], None, "DGI", "mine")
    assert (answer["verdict"], len(answer["reasons"])) == ("good", 1)


class TestNext:
    def test_commands_can_be_pasted_whatever_the_names(self):
        answer = verdict_content([], None, "DGI", "mine", place="my runs/a'b", example="x; rm -rf /")
        words = shlex.split(answer["next"][0]["command"])
        assert words == ["epagcl", "neighbours", "my runs/a'b", "--of", "x; rm -rf /"]

    def test_names_with_line_breaks_are_left_out(self):
        answer = verdict_content([], None, "DGI", "mine", place="a\nb", example="c\rd")
        assert answer["next"][0]["command"] == "epagcl neighbours Z --of ID"

    def test_repairs_of_a_poor_embedding_come_first(self):
        bad = [finding("effective rank", "poor")]
        steps = verdict_content(bad, scores(0.5, propagated=0.8), "DGI", "Cora", place="runs/dgi")["next"]
        assert [step["command"] for step in steps[:3]] == [
            "epagcl train cora --method dgi --lr 0.0001",
            "epagcl train cora --method epagcl+",
            "epagcl train cora --method propagated",
        ]
        steps = verdict_content([finding("kept edges", "poor")], None, "EPAGCL", "my graph", place="z.npy")["next"]
        assert steps[0]["command"] == "epagcl train --edges EDGES --features FEATURES --method epagcl+"
        assert "Put your files in place" in steps[0]["why"]

    def test_a_method_without_training_is_not_trained_more_carefully(self):
        rows = {"rows": [{"name": "raw features", "accuracy": 0.8}, {"name": "propagated", "accuracy": 0.5}]}
        bad = [finding("effective rank", "poor")]
        steps = verdict_content(bad, rows, "propagated", "Cora", place="runs/p")["next"]
        assert [step["command"] for step in steps if " train " in step["command"]] == [
            "epagcl train cora --method epagcl+"
        ]

    def test_the_own_method_is_not_offered_again(self):
        steps = verdict_content([finding("kept edges", "poor")], None, "EPAGCL+", "Cora", place="z.npy")["next"]
        assert not any(" train " in step["command"] for step in steps)

    def test_repairs_in_a_notebook_are_python(self):
        bad = [finding("effective rank", "poor")]
        steps = verdict_content(bad, scores(0.5, propagated=0.8), "DGI", "Cora")["next"]
        assert [step["command"] for step in steps[:3]] == [
            "epagcl.method('dgi')(lr=0.0001).fit(data)",
            "epagcl.method('epagcl+')().fit(data)",
            "epagcl.method('propagated')().fit(data)",
        ]
        for step in steps[:3]:
            assert hasattr(eval(step["command"].removesuffix(".fit(data)"), {"epagcl": epagcl}), "fit")

    def test_in_a_notebook_they_are_functions(self):
        for step in verdict_content([], None, "DGI", "mine")["next"]:
            assert callable(getattr(epagcl, step["command"].removeprefix("epagcl.").partition("(")[0]))

    def test_commands_are_those_of_the_program(self, run):
        for step in verdict_content([], None, "DGI", "mine", place="z.npy")["next"]:
            command, option = shlex.split(step["command"])[1], shlex.split(step["command"])[3:4]
            code, out, _ = run(command, "--help")
            assert code == 0
            assert all(word in out for word in option)
