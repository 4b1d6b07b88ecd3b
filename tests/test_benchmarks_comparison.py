"""The comparison in README and docs, generated from the file that ``epagcl compare --save`` writes."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks import comparison, tables
from epagcl.core.errors import InputError
from epagcl.study.summary import ranking_of, read_comparison, summarise, write_comparison
from tests.paper.conftest import cell, result
from tests.study.invented import invented

ROOT = Path(__file__).parent.parent
GRAPHS = ["Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Amazon-Computers", "Coauthor-CS", "Coauthor-Physics", "Texas"]
GRAPHS += ["Cornell", "Wisconsin", "Chameleon", "Squirrel", "Actor", "Flickr", "Facebook"]
TITLES = ["raw features", "propagated", "DGI", "GCA*", "MVGRL", "EPAGCL", "EPAGCL+"]


@pytest.fixture
def file(tmp_path):
    """The file of a comparison: rows a point apart on every graph, except that MVGRL lacks one."""
    rng = np.random.default_rng(0)
    rows = {
        title: {graph: (60 + 3 * place + rng.normal(0, 0.5, 3)).tolist() for graph in GRAPHS}
        for place, title in enumerate(TITLES)
    }
    del rows["MVGRL"]["Flickr"]
    rows["MVGRL"]["Cora"] = [80.0] * 3  # rows without a rank count as rivals
    rows["EPAGCL"]["Texas"] = [90.0] * 3
    command = "epagcl compare cora citeseer --seeds 3"
    content = summarise(invented(rows), command=command, seeds=3, protocols=["strict"])
    write_comparison(content, tmp_path / "comparison.json")
    return tmp_path / "comparison.json"


def test_without_the_file_the_blocks_are_empty(tmp_path, monkeypatch):
    assert set(comparison.blocks(tmp_path / "absent.json").values()) == {""}
    comparison.draw(tmp_path / "absent.json", tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(tables, "COMPARISON", tmp_path / "absent.json")
    text = "a\n<!-- comparison -->\nold\n<!-- /comparison -->\nb\n"
    assert tables.with_tables(text) == "a\n<!-- comparison -->\n<!-- /comparison -->\nb\n"


def test_the_main_table_is_compact_and_marked(file, monkeypatch):
    monkeypatch.setattr(tables, "COMPARISON", file)
    text = tables.with_tables("## Results\n\n<!-- comparison -->\n<!-- /comparison -->\n")
    lines = text.splitlines()
    head = next(line for line in lines if line.startswith("| method"))
    assert head.startswith("| method | Cora | CiteSeer | PubMed | Photo | Computers | CS | Physics | Texas | Cornell |")
    assert head.endswith("| Flickr | Facebook | mean | rank |")
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")}
    assert rows["EPAGCL+"].endswith(" | **1.1** |")
    assert "| – |" in rows["MVGRL"]
    assert rows["MVGRL"].endswith("| – | – |")
    assert r"GCA\*" in rows
    assert rows["EPAGCL"].split(" | ")[8] == "**90.0**"  # Texas
    assert all(len(line) <= 120 for line in lines if not line.startswith("|"))
    for words in (
        "Protocol strict, splits random 10/10/80, 3 seeds",
        "Not ranked, since results on some graphs are missing or too few: MVGRL.",
        "otherwise its defaults. Measured on GPU, 2026-01-01, commit abc. Command: `epagcl compare cora citeseer",
        "](docs/figures/comparison.svg)",
        "A bar joins rows that do not differ significantly",
    ):
        assert words in " ".join(text.split()), words


def test_standings_say_where_a_row_is_furthest_behind(file):
    content = read_comparison(file)
    rows = {row.title: row for row in comparison.standings(content)}
    best = rows["EPAGCL+"]
    assert best.best_on == 13
    assert best.graph == "Texas"
    scores = {
        cell["row"]: 100 * cell["protocols"]["strict"]["accuracy"]["mean"] for cell in content["results"]["Texas"]
    }
    assert best.behind == pytest.approx(90 - scores["EPAGCL+"])
    assert rows["EPAGCL"].best_on == 1
    assert list(best.rivals) == ["Texas", "Cora"]
    assert best.rivals["Texas"] == ("EPAGCL", pytest.approx(best.behind))
    assert best.rivals["Cora"][0] == "MVGRL"
    assert len(rows["propagated"].rivals) == 15
    assert "MVGRL" not in rows
    text = comparison.blocks(file)["by-method"]
    assert f"| <u>{best.behind:.1f} (Texas)</u> |" in text
    assert "| propagated |" in text


def test_the_reading_names_the_best_row_and_the_tests(file):
    text = " ".join(comparison.blocks(file)["ranking"].split())
    ranking = ranking_of(read_comparison(file)["results"], "strict")
    assert "Over 15 graphs, EPAGCL+ has the best mean rank, 1.1 of 6 rows, with a mean accuracy of " in text
    assert f"{ranking.means['EPAGCL+']:.1f}%. It is the best on 13." in text
    assert "Another row is better on Texas (EPAGCL, by " in text
    assert "and Cora (MVGRL, by " in text
    assert "It is significantly better than every other row (" in text
    assert "The second best mean rank is 1.9 (EPAGCL, with" in text
    assert "](figures/comparison.svg)" in text


def test_a_paragraph_on_tuned_methods_follows_if_they_were_measured(file):
    rows = {"propagated": 70.0, "GRACE": 60.0, "EPAGCL+": 80.0}
    cells = [
        cell(title, graph, [mean + shift for shift in (0.1 * place, 0.2, -0.1)]) | {"untrained": None}
        for graph in ("Cora", "Texas")
        for place, (title, mean) in enumerate(rows.items())
    ]
    tuned = result(cells, datasets=("cora", "texas"), protocols=("strict",))
    assert comparison.read_result(file.parent, "tuned") is None
    assert "If every method is tuned" not in comparison.blocks(file)["comparison"]
    (file.parent / "paper").mkdir()
    (file.parent / "paper" / "tuned.json").write_text(json.dumps(tuned))
    made = comparison.blocks(file)
    words = "(6 trials of at most 300 epochs), EPAGCL+ has mean rank 1.0 of 3 rows over 2 graphs"
    for name, page in (("comparison", "docs/results.md"), ("ranking", "results.md")):
        text = " ".join(made[name].split())
        assert f"tuned with the same budget {words}, and a significant lead over no other row;" in text
        assert "of 2 tests against the other trained methods on single graphs, 2 find it better and 0 worse." in text
        assert f"]({page}#whole-methods-with-one-budget)" in text


def test_what_training_adds_is_told_by_graph():
    trained, graphs = [80.0, 80.1, 80.2, 80.1, 80.0], ["Cora", "Amazon-Photo"]
    rows = {"DGI": dict.fromkeys(graphs, trained), "GRACE": dict.fromkeys(graphs, trained)}
    rows |= {f"untrained {title}": {"Cora": [70.0, 70.1, 70.1, 70.2, 70.0]} for title in ("DGI", "GRACE")}
    for title, shift in (("DGI", 0.1), ("GRACE", -0.1)):
        rows[f"untrained {title}"]["Amazon-Photo"] = [
            80.1 + shift,
            79.9 + shift,
            80.2 + shift,
            80.0 + shift,
            80.2 + shift,
        ]
    content = summarise(invented(rows), command="epagcl compare", seeds=5, protocols=["strict"])
    assert " ".join(comparison.training(content).split()) == (
        "Of 4 tests of a method against its own encoder with initial weights, 2 find the trained one better and 0 "
        "worse; 2 are undecided. Most tests find it better on Cora (2 of 2). On Photo, half of them or fewer do, and "
        "the untrained encoder has the higher mean in 1 of 2 cases."
    )
    del rows["untrained DGI"], rows["untrained GRACE"]
    content = summarise(invented(rows), command="epagcl compare", seeds=5, protocols=["strict"])
    assert comparison.training(content) == ""


def test_the_figure_is_drawn_from_the_file(file, tmp_path):
    comparison.draw(file, tmp_path / "figures")
    text = (tmp_path / "figures" / "comparison.svg").read_text()
    for title, rank in ranking_of(read_comparison(file)["results"], "strict").mean_ranks.items():
        assert f"{title}  {rank:.2f}" in text or f"{rank:.2f}  {title}" in text


def test_a_comparison_of_one_graph_is_refused(tmp_path):
    content = summarise(invented({"DGI": {"Cora": [80]}}), command="epagcl compare cora", seeds=1, protocols=["strict"])
    write_comparison(content, tmp_path / "c.json")
    with pytest.raises(InputError, match=r"nothing is ranked; compare at least two graphs"):
        comparison.blocks(tmp_path / "c.json")


def test_the_figure_of_the_docs_matches_the_results():
    if not tables.COMPARISON.exists():
        pytest.skip("no results/comparison.json")
    text = (ROOT / "docs" / "figures" / "comparison.svg").read_text(encoding="utf-8")
    content = read_comparison(tables.COMPARISON)
    for rank in ranking_of(content["results"], content["protocol"]).mean_ranks.values():
        assert re.search(rf"\b{rank:.2f}\b", text)


def test_the_stored_ranking_is_the_one_that_is_computed():
    comparison_file = read_comparison(ROOT / "results" / "comparison.json")
    ranking = ranking_of(comparison_file["results"], comparison_file["protocol"])
    assert comparison_file["ranking"] == json.loads(json.dumps(asdict(ranking)))
