import pytest

from epagcl.paper.theory_reading import addition_totals, reading, root_mean_square, sizes
from tests.paper.theory_demo import theory_of_demo


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
    adding, guided, dropping, *_, random, named, _ = reading(demo)
    assert "dropping is steadier on 0 of 1 graphs (median 0.20000 against 0.10000)" in adding
    assert "by Eq. 7, on 1 of 1 graphs (median 0.00000 against 0.15000)" in adding
    assert "are steadier on 0 of 1 graphs (median 0.15000 against 0.10000)" in guided
    assert "than the text's (small α) on 1 of 1 graphs (median 0.00000 against 0.05000)" in dropping
    assert "the text's on 1 of 1 graphs (median 0.05000 against 0.20000)" in dropping
    assert "Theorem 3.3 has no exception here" in random
    assert named.startswith("demo of the 1 named graphs meets")


def test_changes_that_cancel_do_not_count_as_steady(demo):
    # The root mean square of -3, 1 and 5 from their mean and their standard deviation with two degrees of freedom.
    assert root_mean_square(1.0, 4.0, 3) == pytest.approx((35 / 3) ** 0.5)
    cells = demo["graphs"]["demo"]["views"]["rates"]["0.3"]
    demo["graphs"]["demo"]["views"]["views"] = 10
    cells["eq7_drop"]["edge"], cells["text_drop"]["edge"] = [0.0, 0.1], [0.05, 0.0]
    dropping = reading(demo)[2]
    assert "than the text's (small α) on 0 of 1 graphs (median 0.09487 against 0.05000)" in dropping


def test_sizes_and_totals_are_those_of_the_result(demo):
    (size,) = sizes(demo, "uniform_add").values()
    views = demo["graphs"]["demo"]["views"]
    mean, std = views["rates"]["0.3"]["uniform_add"]["edge"]
    assert size == root_mean_square(mean, std, views["views"])
    total, against, size, size_against = addition_totals(demo, "d", "within")
    assert total == sum(row["added"]["d"]["within"][0] for row in demo["random_graphs"])
    assert 0 < against < total
    assert 0 < size_against < size
