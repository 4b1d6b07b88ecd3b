import json
from pathlib import Path

import pytest

from epagcl.core.errors import InputError
from epagcl.paper import ARTEFACTS, find_artefact
from epagcl.paper.artefact import digest
from epagcl.paper.page import FIGURES, page_text, read_results, write_page
from epagcl.paper.tables import latex

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results" / "paper"


@pytest.fixture(scope="module")
def results():
    return read_results(RESULTS)


def test_the_page_is_what_the_results_give(results):
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == page_text(results)


def test_every_artefact_has_a_section(results):
    assert list(results) == list(ARTEFACTS)
    text = page_text(results)
    for name in ARTEFACTS:
        assert f"\n## {find_artefact(name).title}\n" in text
    assert "Not measured\n" not in text


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


def test_no_figure_is_left_over(results):
    wanted = {find_artefact(name).stem(slug) for name in results for slug in find_artefact(name).figures(results[name])}
    assert {path.stem for path in (ROOT / "docs" / FIGURES).iterdir()} == wanted


@pytest.mark.parametrize("name", list(ARTEFACTS))
def test_results_say_when_how_and_on_what_they_were_made(results, name):
    made = results[name]
    assert made["artefact"] == name
    assert made["command"].startswith(f"epagcl paper {name}")
    assert {"date", "hardware", "versions", "commit", "asked"} <= set(made)
    assert made["asked"]["seeds"] == list(range(made["asked"]["runs"]))


@pytest.mark.parametrize("name", list(ARTEFACTS))
def test_latex_of_every_result_compiles_as_far_as_characters_go(results, name):
    for table in find_artefact(name).tables(results[name]):
        text = latex(table)
        assert text.isascii(), {character for character in text if not character.isascii()}


def test_a_page_of_few_results_names_the_others(tmp_path, results):
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
        with pytest.raises(InputError, match="a result that is not whole"):
            write_page(tmp_path, tmp_path)


def test_the_words_of_the_paper_page_hold(results):
    """docs/paper.md and README say these without figures."""
    from epagcl.paper import ablation, accuracy, add_vs_drop, leakage

    for graph in ("Cora", "CiteSeer"):
        anew, pool = (add_vs_drop.gaps(results["add-vs-drop"], "strict", graph, kind) for kind in ("add", "pool"))
        assert len(anew) >= 2
        assert all(gap > 0 for gap, _, _ in anew.values())  # dropping is better
        assert all(low > 0 for _, low, _ in pool.values())  # most of all against a fixed pool, on average
        over_drop = ablation.gains(results["ablation"], "strict", graph, base=ablation.DROP_ONLY)[ablation.OURS]
        assert over_drop.low < 0  # adding to what is dropped does not help
        over_text = ablation.gains(results["ablation"], "strict", graph, base=ablation.TEXT)[ablation.OURS]
        assert over_text.low > 0  # accuracy is better by the formula's direction
        for base, most in ((ablation.OURS, 1.0), (ablation.DROP_ONLY, 0.0)):
            assert ablation.gains(results["ablation"], "strict", graph, base=base)[ablation.ORACLE].gain < most
        (row,) = (r for r in results["leakage"]["rows"] if (r["graph"], r["method"]) == (graph, "EPAGCL"))
        found = leakage.by_rule(row)
        missing = row["reported"][0] - found["paper"]["mean"]
        assert (found["authors"]["mean"] - found["paper"]["mean"]) / missing == pytest.approx(0.5, abs=0.1)
    others = ("raw features", "untrained encoder", "GCN", "GAT")
    titles = [title for title in accuracy.titles_of(results["accuracy"]) if title not in others]
    graphs = ("Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Coauthor-Physics")
    ranks = accuracy.mean_ranks({g: accuracy.scores(results["accuracy"], "strict", g) for g in graphs}, titles)
    assert sorted(ranks, key=ranks.get).index("EPAGCL") >= len(ranks) - 3
    words = find_artefact("significance").reading(results["significance"])[0]
    assert "significantly better in 0" in words
