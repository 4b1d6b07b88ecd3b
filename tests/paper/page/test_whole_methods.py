import json

import pytest

from epagcl.paper.page.whole_methods import TITLE, origin, reading, repeated_runs, section, tables, training_gains
from epagcl.study.summary import ranking_of, summarise
from tests.study.invented import invented

NOISE = [0.0, 0.2, -0.1, 0.1, -0.2]


def compared(**means):
    """Return the comparison of rows with these mean accuracies on two graphs, five seeds each."""
    rows = {
        title: {graph: [mean + shift * (1 + place) for shift in NOISE[place:] + NOISE[:place]] for graph in "AB"}
        for place, (title, mean) in enumerate(means.items())
    }
    return summarise(invented(rows), command="epagcl compare", seeds=5, protocols=["strict"])


@pytest.fixture
def comparison():
    untrained = {"untrained GRACE": 60.0, "untrained EPAGCL+": 75.0}
    return compared(propagated=70.0, **untrained, GRACE=72.0, **{"EPAGCL+": 85.0})


def test_each_method_is_tested_against_its_own_untrained_encoder(comparison):
    gains = training_gains(comparison)
    assert set(gains) == {(graph, title) for graph in "AB" for title in ("GRACE", "EPAGCL+")}
    assert gains["A", "GRACE"].mean == pytest.approx(12.0)
    assert gains["B", "EPAGCL+"].mean == pytest.approx(10.0)


def test_tables_have_accuracies_differences_and_what_training_adds(comparison):
    accuracies, against, differences, training = tables(comparison, ranking_of(comparison["results"], "strict"))
    rows = {line[0]: [str(one) for one in line[1:]] for line in accuracies.rows}
    assert rows["EPAGCL+"] == ["85.0", "85.0", "1.0"]
    assert rows["GRACE"] == ["72.0 ▼", "72.0 ▼", "3.0"]
    assert {line[0]: line[1:5] for line in against.rows}["propagated"] == ["+15.00", "2", "0", "0"]
    assert {line[0]: line[1] for line in differences.rows}["GRACE"].startswith("+13.0 ▲ (")
    assert {line[0]: line[1:5] for line in training.rows} == {
        "GRACE": ["+12.00", "2", "0", "0"],
        "EPAGCL+": ["+10.00", "2", "0", "0"],
    }


def test_paragraphs_count_tests_and_settings(comparison):
    ranks, settings, training = reading(comparison, ranking_of(comparison["results"], "strict"))
    assert "**Mean ranks over 2 graphs**, the best first: EPAGCL+ 1.0, untrained EPAGCL+ 2.0" in ranks
    assert settings == "**Settings**: of 4 pairs of method and graph, 4 use the method's defaults."
    assert "of 4 paired tests of a method on a graph, 4 find training better, 0 worse, and 0 are undecided" in training


def test_rows_with_fewer_runs_are_named(comparison):
    scores = comparison["results"]["A"][-1]["protocols"]["strict"]
    scores["seeds"] = scores["seeds"][:3]
    scores["accuracy"]["runs"] = scores["accuracy"]["runs"][:3]
    *_, missing = reading(comparison, ranking_of(comparison["results"], "strict"))
    assert missing.startswith("Missing or incomplete: EPAGCL+ on A (3 of 5 runs).")
    assert missing.endswith("Ranks compare means of all runs that a row has.")


def test_the_section_ends_with_its_origin(comparison):
    text = section(comparison, {"tuned": {}})
    assert text.startswith(f"## {TITLE}\n")
    assert "The next section has the same methods tuned" in " ".join(text.split())
    assert "The next section" not in section(comparison, {})
    assert "Measured on GPU, 2026-01-01, commit abc. Command: `epagcl compare`." in " ".join(text.split())
    comparison["results"]["A"][0]["commits"] = ["abc", "defghijklm"]
    assert "commits abc and defghij. " in origin(comparison)


def test_runs_that_other_sections_repeat_with_another_outcome_are_counted(comparison):
    same = json.loads(json.dumps(comparison["results"]["A"]))
    assert repeated_runs(comparison, {"accuracy": {"cells": same}}) == []
    same[0]["protocols"]["strict"]["accuracy"]["runs"][0] += 0.02
    for cell in comparison["results"]["B"]:
        cell["settings"] = {"epochs": 5}
    other = {"cells": [{**cell, "settings": {"epochs": 7}} for cell in comparison["results"]["B"]]}
    (text,) = repeated_runs(comparison, {"accuracy": {"cells": same}, "heterophily": other})
    assert f"1 of {len(same)} cells that two sections share have other outcomes there (A)" in text
    title, runs = same[0]["row"], len(same[0]["seeds"])
    found = f"by up to {2 / runs:.1f} points ({title} on A, where single runs differ by up to 2.0)."
    assert text.endswith(found)


def test_the_ablation_repeats_the_rows_without_masks(comparison):
    cells = json.loads(json.dumps(comparison["results"]["A"]))[-2:]
    for cell, title in zip(cells, ("EPAGCL", "EPAGCL*"), strict=True):
        cell["row"] = title
    assert repeated_runs(comparison, {"ablation": {"cells": cells[:1]}, "accuracy": {"cells": cells[1:]}}) != []
    assert repeated_runs(comparison, {"accuracy": {"cells": cells}}) == []  # other rows of one section


def test_the_widths_of_trained_embeddings_are_named(comparison):
    for cell, dim in zip(comparison["results"]["A"][-2:], (128, 512), strict=True):
        cell["settings"] = {"name": "greet" if dim == 128 else "grace", "dim": dim}
    (accuracies, *_) = tables(comparison, ranking_of(comparison["results"], "strict"))
    assert accuracies.note.endswith(
        "Widths and epochs are those of the recipes: embeddings have 256 to 512 dimensions."
    )


def test_other_rows_are_compared_without_ours_and_one_graph_is_no_ranking():
    comparison = compared(propagated=70.0, GRACE=72.0)
    (accuracies,) = tables(comparison, ranking_of(comparison["results"], "strict"))
    assert [str(one) for one in accuracies.rows[1][1:]] == ["72.0", "72.0", "1.0"]
    comparison["results"] = {"A": comparison["results"]["A"]}
    assert section(comparison, {}) == ""


def test_graphs_without_cells_and_cells_without_the_protocol_are_left_out(comparison):
    comparison["results"]["C"] = []
    del comparison["results"]["B"][0]["protocols"]["strict"]
    accuracies, _, differences, _ = tables(comparison, ranking_of(comparison["results"], "strict"))
    assert list(accuracies.columns) == ["method", "A", "B", "rank"]
    assert [str(one) for one in accuracies.rows[0]] == ["propagated", "70.0 ▼", "–", "–"]
    assert differences.rows[0][2] == "–"
    assert "5 seeds: seed k" in accuracies.note


def test_a_pair_with_two_common_seeds_is_undecided(comparison):
    scores = comparison["results"]["A"][1]["protocols"]["strict"]
    scores["seeds"] = [0, 1, 7, 8, 9]
    gains = training_gains(comparison)
    assert (gains["A", "GRACE"].n, gains["A", "GRACE"].verdict) == (2, "undecided")
    assert gains["B", "GRACE"].verdict == "better"
