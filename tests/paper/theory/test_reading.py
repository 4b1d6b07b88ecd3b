import json
from pathlib import Path
from statistics import median

import pytest

from epagcl.paper.theory.reading import (
    addition_totals,
    contradicted,
    contradicted_by_family,
    reading,
    repaired_exceptions,
    root_mean_square,
    sizes,
    small_totals,
)
from epagcl.paper.theory.tables import KINDS, repaired_share
from tests.paper.theory_demo import theory_of_demo

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def demo():
    return theory_of_demo()


def test_text_follows_the_numbers(demo):
    cells = demo["graphs"]["demo"]["views"]["rates"]["0.3"]
    changes = {"uniform_drop": 0.2, "uniform_add": 0.1, "eq7_add": 0.15, "eq7_drop": 0.0, "text_drop": 0.05}
    for name, change in changes.items():
        cells[name]["edge"] = [change, 0.0]
    for row in demo["random_graphs"]:
        for counts in (*row["added"]["d"].values(), *row["added"]["d1"].values()):
            counts[1] = 0
    demo["graphs"]["demo"]["theorem_3_3"]["conditions"]["holds"] = True
    adding, guided, dropping, *_, random, named, _, _ = reading(demo)
    assert "dropping is steadier on 0 of 1 graphs (median 0.20000 against 0.10000)" in adding
    assert "by Eq. (9), on 1 of 1 graphs (median 0.00000 against 0.15000)" in adding
    assert "are steadier on 0 of 1 graphs (median 0.15000 against 0.10000)" in guided
    assert "than that of the text, small α, on 1 of 1 graphs (median 0.00000 against 0.05000)" in dropping
    assert "the text on 1 of 1 graphs (median 0.05000 against 0.20000)" in dropping
    assert "Theorem 3.3 has no exception here" in random
    assert named.startswith("demo of the 1 named graphs meets")


def test_changes_that_cancel_do_not_count_as_steady(demo):
    # The root mean square of -3, 1 and 5 from their mean and their standard deviation with two degrees of freedom.
    assert root_mean_square(1.0, 4.0, 3) == pytest.approx((35 / 3) ** 0.5)
    cells = demo["graphs"]["demo"]["views"]["rates"]["0.3"]
    demo["graphs"]["demo"]["views"]["views"] = 10
    cells["eq7_drop"]["edge"], cells["text_drop"]["edge"] = [0.0, 0.1], [0.05, 0.0]
    dropping = reading(demo)[2]
    assert "than that of the text, small α, on 0 of 1 graphs (median 0.09487 against 0.05000)" in dropping


def test_sizes_and_totals_are_those_of_the_result(demo):
    (size,) = sizes(demo, "uniform_add").values()
    views = demo["graphs"]["demo"]["views"]
    mean, std = views["rates"]["0.3"]["uniform_add"]["edge"]
    assert size == root_mean_square(mean, std, views["views"])
    total, against, size, size_against, *_ = addition_totals(demo, "d", "within")
    assert total == sum(row["added"]["d"]["within"][0] for row in demo["random_graphs"])
    assert 0 < against < total
    assert 0 < size_against < size


def test_both_readings_stand_side_by_side(demo):
    random, named, repaired = reading(demo)[4:7]
    for form, words in (("d", "with d,"), ("d1", "with d+1,")):
        shares = contradicted_by_family(demo, form)
        assert min(shares.values()) <= contradicted(demo, form) <= max(shares.values())
        assert f"{contradicted(demo, form):.2%} {words} from {min(shares.values()):.2%}" in random
        assert named.count(f"with {words.split()[1].rstrip(',')}") >= len(KINDS)
        met, exceptions = small_totals(demo, form, "repaired")
        assert exceptions == 0 < met
        assert f"and 0 of the {met:,} that meet the repaired one" in repaired
    assert repaired_exceptions(demo) == 0
    demo["random_graphs"][0]["added"]["d1"]["between"][-1] = 2
    assert repaired_exceptions(demo) == 2


def test_figures_of_the_documentation_are_those_of_the_result():
    result = json.loads((ROOT / "results" / "paper" / "theory.json").read_text(encoding="utf-8"))
    words = " ".join((ROOT / "docs" / "paper.md").read_text(encoding="utf-8").split())
    for form, low, high in (
        ("d", "degrees 4 to 15, homophilous", "regular, d = 3"),
        ("d1", "regular", "degrees 2 to 7"),
    ):
        shares = contradicted_by_family(result, form)
        assert min(shares, key=shares.get).startswith(low)
        assert max(shares, key=shares.get) == high
        assert f"from {min(shares.values()) * 100:.1g}% ({low}" in words
        assert f"to {max(shares.values()):.1%} ({high})" in words
        assert f"{contradicted(result, form):.2%}" in words
        (paper, wrong), (met, exceptions) = (small_totals(result, form, key) for key in ("paper", "repaired"))
        assert exceptions == 0
        assert all(f"{count:,}" in words for count in (paper, wrong, met))
        within, between = (addition_totals(result, form, where) for where in ("within", "between"))
        assert f"{(within[4] + between[4]) / (within[0] + between[0]):.1%}" in words
        for kind in ("added", "candidates"):
            graphs = result["graphs"].values()
            assert f"{median(repaired_share(graph['theorem_3_3'][kind][form]) for graph in graphs):.1%}" in words
    assert repaired_exceptions(result) == 0
    assert f"{sum(row['graphs'] for row in result['random_graphs'])} random graphs" in words
