import json
from pathlib import Path

import pytest

from epagcl.core.errors import InputError
from epagcl.paper import ARTEFACTS, find_artefact
from epagcl.paper.artefact import digest
from epagcl.paper.page import FIGURES, hardware_of, page_text, read_results, write_page
from epagcl.paper.tables import latex

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results" / "paper"


@pytest.fixture(scope="module")
def results():
    return read_results(RESULTS)


@pytest.fixture(scope="module")
def page():
    """The committed page, which :func:`test_page_matches_the_results` compares with the results."""
    return (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_page_matches_the_results(results, page):
    assert page == page_text(results)


def test_every_artefact_has_a_section(results, page):
    assert list(results) == list(ARTEFACTS)
    for name in ARTEFACTS:
        assert f"\n## {find_artefact(name).title}\n" in page
    assert "Not measured\n" not in page


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ARTEFACTS))
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
def test_no_outdated_figure_remains(results):
    wanted = {find_artefact(name).stem(slug) for name in results for slug in find_artefact(name).figures(results[name])}
    assert {path.stem for path in (ROOT / "docs" / FIGURES).iterdir()} == wanted


@pytest.mark.parametrize("name", list(ARTEFACTS))
def test_results_have_their_provenance(results, name):
    result = results[name]
    assert result["artefact"] == name
    assert result["command"].startswith(f"epagcl paper {name}")
    assert {"date", "hardware", "versions", "commit", "asked"} <= set(result)
    assert result["asked"]["seeds"] == list(range(result["asked"]["runs"]))


@pytest.mark.parametrize("name", list(ARTEFACTS))
def test_latex_of_every_result_is_ascii(results, name):
    for table in find_artefact(name).tables(results[name]):
        text = latex(table)
        assert text.isascii(), {character for character in text if not character.isascii()}


def test_page_of_few_results_names_the_missing_ones(tmp_path, results):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "epr.json").write_text(json.dumps(results["epr"]))
    (tmp_path / "out" / FIGURES).mkdir(parents=True)
    (tmp_path / "out" / FIGURES / "old.png").write_bytes(b"")
    text = write_page(tmp_path / "in", tmp_path / "out").read_text(encoding="utf-8")
    assert "`epagcl paper theory`" in text.split("## Not measured")[1]
    assert {path.name for path in (tmp_path / "out" / FIGURES).iterdir()} == {"epr.png", "epr.svg"}
    with pytest.raises(InputError, match="no results"):
        write_page(tmp_path, tmp_path)
    for text in ("{", "", "{}"):
        (tmp_path / "epr.json").write_text(text)
        with pytest.raises(InputError, match="invalid result"):
            write_page(tmp_path, tmp_path)


def test_statements_of_the_documentation_hold(results):
    """docs/paper.md and README make these statements without numbers."""
    from epagcl.paper import ablation, add_vs_drop, cell_scores, leakage
    from epagcl.study.ranking import mean_ranks

    for graph in ("Cora", "CiteSeer"):
        new_pairs, pool = (add_vs_drop.gaps(results["add-vs-drop"], "strict", graph, kind) for kind in ("add", "pool"))
        assert len(new_pairs) >= 2
        assert all(gap > 0 for gap, _, _ in new_pairs.values())  # dropping is better than adding
        assert all(low > 0 for _, low, _ in pool.values())  # and significantly better than adding from a fixed pool
        over_drop = ablation.gains(results["ablation"], "strict", graph, base=ablation.DROP_ONLY)[ablation.OURS]
        assert over_drop.low < 0  # adding edges on top of dropping does not help
        over_text = ablation.gains(results["ablation"], "strict", graph, base=ablation.TEXT)[ablation.OURS]
        assert over_text.low > 0  # the direction of the formula has the higher accuracy
        for base, most in ((ablation.OURS, 1.0), (ablation.DROP_ONLY, 0.0)):
            assert ablation.gains(results["ablation"], "strict", graph, base=base)[ablation.ORACLE].gain < most
        (row,) = (r for r in results["leakage"]["rows"] if (r["graph"], r["method"]) == (graph, "EPAGCL"))
        accuracies = leakage.by_rule(row)
        missing = row["reported"][0] - accuracies["paper"]["mean"]
        assert (accuracies["authors"]["mean"] - accuracies["paper"]["mean"]) / missing == pytest.approx(0.5, abs=0.1)
    others = ("raw features", "untrained encoder", "GCN", "GAT")
    titles = [title for title in cell_scores.titles_of(results["accuracy"]) if title not in others]
    graphs = ("Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Coauthor-Physics")
    ranks = mean_ranks({g: cell_scores.scores(results["accuracy"], "strict", g) for g in graphs}, titles)
    assert sorted(ranks, key=ranks.get).index("EPAGCL") >= len(ranks) - 3
    assert "significantly better in 0" in find_artefact("significance").reading(results["significance"])[0]


def test_prose_lines_have_at_most_120_characters(page):
    prose = [line for line in page.splitlines() if not line.startswith(("|", "[!["))]
    assert max(map(len, prose)) <= 120


def test_hardware_is_that_of_the_runs():
    assert hardware_of({"measured_on": ["A"], "cells": [{"hardware": ["B"]}]}) == ["A"]
    cells = [{"hardware": ["B", "A"], "settings": {"device": "auto"}}, {"hardware": ["A"]}]
    assert hardware_of({"cells": cells, "hardware": {"device": "C"}}) == ["A", "B"]
    assert hardware_of({"rows": [{"runs": [{"device": "D"}]}], "hardware": {"device": "C"}}) == ["D"]
    assert hardware_of({"hardware": {"device": "C"}}) == ["C"]
