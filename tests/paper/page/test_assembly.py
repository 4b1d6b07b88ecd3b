import json
import re
from pathlib import Path
from statistics import fmean, median

import numpy as np
import pytest
from scipy import stats

from epagcl.core.errors import InputError
from epagcl.paper import ARTEFACTS, find_artefact, heterophily
from epagcl.paper.artefact import digest
from epagcl.paper.page.assembly import FIGURES, hardware_of, page_text, read_comparison_beside, read_results, write_page
from epagcl.paper.page.first_page import figures as first_page_figures
from epagcl.paper.tables import latex

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "paper"


@pytest.fixture(scope="module")
def results():
    return read_results(RESULTS)


@pytest.fixture(scope="module")
def page():
    """The committed page, which :func:`test_page_matches_the_results` compares with the results."""
    return (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def comparison():
    return read_comparison_beside(RESULTS)


@pytest.mark.slow
def test_page_matches_the_results(results, comparison, page):
    assert page == page_text(results, comparison)


def test_the_first_page_has_three_figures_and_five_sentences(page):
    first = page.split("## In two minutes")[1].split("\n## ")[0]
    assert first.count("[![") == 3
    items = numbered(first.split("[![")[0])
    assert len(items) == 5
    for item in items:
        assert re.fullmatch(r"\*\*[^*]+\.\*\*", item)
        assert not re.search(r"\. [A-Z]", item)  # one sentence
        assert len(item.split()) <= 45
    details = numbered(first.split("### Behind these sentences")[1])
    assert len(details) == 5
    assert all(len(item.split()) <= 115 for item in details)


def numbered(text):
    return [" ".join(item.split()) for item in re.split(r"^\d\. ", text, flags=re.MULTILINE)[1:]]


@pytest.mark.slow
def test_figures_of_the_first_page_are_drawn_from_the_comparison(comparison):
    for name in first_page_figures(comparison):
        drawn = (ROOT / "docs" / FIGURES / f"{name}.svg").read_text(encoding="utf-8")
        assert f"source {digest(dict(comparison))}" in drawn


def test_every_artefact_has_a_section(results, page):
    assert list(results) == list(ARTEFACTS)
    for name in ARTEFACTS:
        assert f"\n## {find_artefact(name).title}\n" in page
    assert "Not measured\n" not in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ARTEFACTS)
def test_every_figure_is_drawn_from_its_result(results, name):
    mark = f"source {digest(results[name])}"
    figures = list(find_artefact(name).figures(results[name]))
    assert figures
    for slug in figures:
        stem = ROOT / "docs" / FIGURES / find_artefact(name).stem(slug)
        assert mark in stem.with_name(f"{stem.name}.svg").read_text(encoding="utf-8")
        png = stem.with_name(f"{stem.name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert mark.encode() in png


@pytest.mark.slow
def test_no_outdated_figure_remains(results, comparison):
    wanted = {find_artefact(name).stem(slug) for name in results for slug in find_artefact(name).figures(results[name])}
    wanted |= set(first_page_figures(comparison))
    assert {path.stem for path in (ROOT / "docs" / FIGURES).iterdir()} == wanted


@pytest.mark.parametrize("name", ARTEFACTS)
def test_results_have_their_provenance(results, name):
    result = results[name]
    assert result["artefact"] == name
    assert result["command"].startswith((f"epagcl paper {name}", f"epagcl paper complete --parts {name}"))
    assert result["command"].count("epagcl paper complete") <= 1
    assert {"date", "hardware", "versions", "commit", "asked"} <= set(result)
    assert result["asked"]["seeds"] == list(range(result["asked"]["runs"]))


@pytest.mark.parametrize("name", ARTEFACTS)
def test_latex_of_every_result_is_ascii(results, name):
    for table in find_artefact(name).tables(results[name]):
        text = latex(table)
        assert text.isascii(), {character for character in text if not character.isascii()}


def test_page_of_few_results_names_the_missing_ones(tmp_path, results):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "epr.json").write_text(json.dumps(results["epr"]))
    (tmp_path / "out" / FIGURES).mkdir(parents=True)
    (tmp_path / "out" / FIGURES / "old.png").write_bytes(b"\x89PNG source 0123456789abcdef")
    (tmp_path / "out" / FIGURES / "mine.png").write_bytes(b"\x89PNG")
    (tmp_path / "out" / FIGURES / "folder.d").mkdir()
    text = write_page(tmp_path / "in", tmp_path / "out").read_text(encoding="utf-8")
    assert "`epagcl paper theory`" in text.split("## Not measured")[1]
    assert {path.name for path in (tmp_path / "out" / FIGURES).iterdir()} == {
        "epr.png",
        "epr.svg",
        "mine.png",
        "folder.d",
    }
    with pytest.raises(InputError, match="no results"):
        write_page(tmp_path, tmp_path)


def test_damaged_results_are_named(tmp_path, results):
    whole = results["epr"]
    without_command = {key: value for key, value in whole.items() if key != "command"}
    cases = {
        "{": "Expecting property name",
        "": "Expecting value",
        "[]": "not a result of `epagcl paper epr`",
        "{}": "not a result of `epagcl paper epr`",
        json.dumps(without_command): "command is missing",
        json.dumps(whole | {"graphs": {"Cora": {"per_node": float("nan")}}}): "NaN is no number",
        json.dumps(whole | {"graphs": {"Cora": None}}): "subscriptable",
        json.dumps({key: value for key, value in whole.items() if key != "graphs"}): "'graphs' is missing",
    }
    for text, reason in cases.items():
        (tmp_path / "epr.json").write_text(text)
        with pytest.raises(InputError) as caught:
            write_page(tmp_path, tmp_path / "out")
        assert str(caught.value).startswith(f"{tmp_path / 'epr.json'}: damaged (")
        assert reason in str(caught.value)
        assert str(caught.value).endswith("compute it again with `epagcl paper epr`")
        assert not (tmp_path / "out").exists()


def test_a_damaged_comparison_is_named(tmp_path, results, comparison):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "epr.json").write_text(json.dumps(results["epr"]))
    (tmp_path / "comparison.json").write_text(json.dumps({**comparison, "results": 3}))
    with pytest.raises(InputError, match=r"comparison\.json: damaged \(.*; write it again with"):
        write_page(tmp_path / "in", tmp_path / "out")


def test_statements_of_the_documentation_hold(results):
    """docs/paper.md and README make these statements without numbers."""
    from epagcl.paper import ablation, accuracy, add_vs_drop, cell_scores, collapses, leakage_tables, views_only
    from epagcl.paper.tuned import tables as tuned_tables

    drops = add_vs_drop.all_gaps(results["add-vs-drop"])
    assert len(drops) == 32
    assert all(test.mean > 0 for test in drops.values())  # dropping has the higher means
    decided = [place for place, test in drops.items() if test.verdict == "better"]
    assert [rate for graph, kind, rate in decided if (graph, kind) == ("Cora", "add")] == [0.1]
    assert [rate for graph, kind, rate in decided if (graph, kind) == ("Cora", "pool")] == [0.1, 0.2, 0.4]
    assert sum(graph == "CiteSeer" for graph, *_ in decided) == 16  # every test
    alone = views_only.drop_over_add(results["views"])
    assert [test.verdict for test in alone].count("better") == 3  # of 15 graphs
    assert f"{median(test.mean for test in alone):+.1f}" == "+0.4"
    added = views_only.compared(results["views"], views_only.PAPERS, views_only.DROP_ONLY).values()
    assert f"{fmean(test.mean for test in added):+.1f}" == "+0.0"
    assert {test.verdict for test in added} == {"undecided"}
    rules = leakage_tables.rule_tests(results["leakage"]["rows"])
    assert {rules[graph, "EPAGCL"].verdict for graph in ("Cora", "CiteSeer")} == {"undecided"}
    assert {rules[graph, "EPAGCL"].n for graph in ("Cora", "CiteSeer")} == {5}
    lower = []  # where the formula's direction of dropping has the lower mean
    for one, other in ((ablation.PAPERS, ablation.TEXT), (ablation.DROP_ONLY, ablation.TEXT_DROP)):
        directions = ablation.claim_tests(results["ablation"], "strict", one, [other])
        assert len(directions) == 4
        assert all(test.verdict == "undecided" for test in directions.values())
        lower += [(graph, one) for (graph, _), test in directions.items() if test.mean < 0]
    assert lower == [("Amazon-Photo", ablation.PAPERS)]
    photo = collapses.collapsed(results["ablation"], "strict", "Amazon-Photo", best=True)
    assert (photo[ablation.PAPERS], photo[ablation.TEXT]) == (3, 1)
    assert len(cell_scores.runs_by_seed(results["ablation"], "strict", "Amazon-Photo")[ablation.PAPERS]) == 20
    for graph in ("Cora", "CiteSeer"):
        over_drop = ablation.gains(results["ablation"], "strict", graph, base=ablation.DROP_ONLY)[ablation.PAPERS].test
        assert over_drop.mean < 0  # adding edges on top of dropping does not raise the mean
        assert over_drop.verdict == "undecided"
        for base, most in ((ablation.PAPERS, 1.0), (ablation.DROP_ONLY, 0.0)):
            assert ablation.gains(results["ablation"], "strict", graph, base=base)[ablation.ORACLE].test.mean < most
        (row,) = (r for r in results["leakage"]["rows"] if (r["graph"], r["method"]) == (graph, "EPAGCL"))
        accuracies = leakage_tables.by_rule(row)
        missing = row["reported"][0] - accuracies["paper"]["mean"]
        assert (accuracies["authors"]["mean"] - accuracies["paper"]["mean"]) / missing == pytest.approx(0.5, abs=0.1)
    ranks = cell_scores.ranks_of(results["accuracy"], "strict").mean
    assert sorted(ranks, key=ranks.get).index("EPAGCL") >= len(ranks) - 3
    words = [test.verdict for test in accuracy.against_others(results["accuracy"]).values()]
    assert words.count("worse") > words.count("better")
    tuned = tuned_tables.ranking_of(results["tuned"])
    assert len(tuned.graphs) == 15
    assert tuned.beaten_by("EPAGCL") == set()
    assert [title for title in tuned.mean_ranks if "EPAGCL" in tuned.beaten_by(title)] == ["EPAGCL+"]


def test_numbers_of_the_documentation_on_tests_and_graphs_hold(results):
    from epagcl.core.formatting import span
    from epagcl.paper import graphs
    from epagcl.paper.page import judges
    from epagcl.study.paired_test import OVERLAP, corrected, paired_test

    text = " ".join((ROOT / "docs" / "paper.md").read_text(encoding="utf-8").split())
    overlap = results["overlap"]
    sizes = [one for row in overlap["simulated"] for one in row["sizes"].values()]
    plain, ours = ([one[name] for one in sizes] for name in ("plain", "ours"))
    shared = [pair["shared_variance"] for graph in overlap["graphs"].values() for pair in graph["pairs"]]
    repeated = {name: graph["repeated"]["nodes"] for name, graph in results["graphs"]["graphs"].items()}
    correlations = graphs.drop_correlations(results["graphs"])
    spread = np.linspace(-1, 1, 20) / np.linspace(-1, 1, 20).std(ddof=1)
    alone = [paired_test(spread[:n] / spread[:n].std(ddof=1)) for n in (20, 10, 5)]
    in_family = [corrected([test] * 100)[0] for test in alone]
    least = OVERLAP**0.5 * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8))
    (unmasked,) = (
        cell
        for cell in results["accuracy"]["cells"]
        if (cell["graph"]["name"], cell["row"]) == ("Amazon-Photo", "EPAGCL*")
    )
    ranks = unmasked["training"]["effective_rank"]
    worst = 100 * min(unmasked["protocols"]["strict"]["accuracy"]["runs"])
    for statement in (
        f"Without feature masks, {sum(rank < 10 for rank in ranks)} of {len(ranks)} embeddings collapse to few "
        f"dimensions, and one of these collapses to {worst:.0f}%",
        f"it does so in {span(plain, '.0%')} of cases instead of 5%",
        f"decides wrongly in {span(ours, '.0%')} of cases on the generated graphs",
        f"lies between {min(shared):.2f} and {max(shared):.2f}, and {sum(c <= OVERLAP for c in shared)} of "
        f"{len(shared)} pairs are at most 1/4",
        "it is about {:.1f} s with 20 runs, {:.1f} s with 10 and {:.1f} s with 5.".format(
            *(t.detectable for t in alone)
        ),
        "Holm's correction makes it {:.1f} s, {:.1f} s and {:.1f} s.".format(*(t.detectable for t in in_family)),
        f"no number of runs goes below {least:.1f} s",
        f"{repeated['Chameleon']:,} of 2,277 and {repeated['Squirrel']:,} of 5,201 nodes repeat another node",
        f"is {min(correlations.values()):+.2f} or more on all {len(correlations)} graphs",
    ):
        assert statement in text, statement
    assert judges.lower_deviation(results["accuracy"]).evidence.startswith(
        "of 5 graphs, 0 decide for it, 5 are undecided"
    )
    assert "lower on 3:" in judges.lower_deviation(results["accuracy"]).evidence
    better = {
        protocol: [graph for (graph, _), test in tests.items() if test.verdict == "better"]
        for protocol in ("paper", "strict", "public")
        if len(tests := heterophily.over_gca(results["heterophily"], protocol)) == 6
        and "worse" not in {test.verdict for test in tests.values()}
    }
    assert better == {"paper": [], "strict": ["Chameleon"], "public": ["Chameleon", "Squirrel"]}
    equal = judges.over_gca(results["heterophily"]).evidence
    assert equal.startswith("of 12 pairs of graph and settings, 0 decide for it, 12 are undecided")


def test_prose_lines_have_at_most_120_characters(page):
    prose = [line for line in page.splitlines() if not line.startswith(("|", "[!["))]
    assert max(map(len, prose)) <= 120


def test_hardware_is_that_of_the_runs():
    assert hardware_of({"measured_on": ["A"], "cells": [{"hardware": ["B"]}]}) == ["A"]
    cells = [{"hardware": ["B", "A"], "settings": {"device": "auto"}}, {"hardware": ["A"]}]
    assert hardware_of({"cells": cells, "hardware": {"device": "C"}}) == ["A", "B"]
    assert hardware_of({"rows": [{"runs": [{"device": "D"}]}], "hardware": {"device": "C"}}) == ["D"]
    assert hardware_of({"hardware": {"device": "C"}}) == ["C"]
