from itertools import combinations

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, wilcoxon

from epagcl.study.ranking import critical_difference, friedman, mean_ranks, rank


def random_scores(rows: int, graphs: int, seed: int, decimals: int = 6) -> dict[str, dict[str, float]]:
    """Return scores with few decimals for many ties."""
    values = np.random.default_rng(seed).normal(size=(rows, graphs)).round(decimals)
    return {f"m{i}": {f"g{j}": float(values[i, j]) for j in range(graphs)} for i in range(rows)}


def test_ranks_are_means_over_graphs_and_ties_share_a_rank():
    graphs = {"a": {"x": 3.0, "y": 2.0, "z": 1.0}, "b": {"x": 1.0, "y": 1.0, "w": 9.0}}
    assert mean_ranks(graphs, ["x", "y", "z"]) == {"x": (1 + 1.5) / 2, "y": (2 + 1.5) / 2, "z": 3.0}


@pytest.mark.parametrize("decimals", [6, 0])  # without ties, with ties
@pytest.mark.parametrize(("rows", "graphs"), [(3, 5), (6, 15)])
def test_friedman_equals_scipys(rows, graphs, decimals):
    scores = random_scores(rows, graphs, seed=rows, decimals=decimals)
    expected = friedmanchisquare(*([row[f"g{j}"] for j in range(graphs)] for row in scores.values()))
    test = friedman({f"g{j}": {title: row[f"g{j}"] for title, row in scores.items()} for j in range(graphs)})
    assert test.statistic == pytest.approx(expected.statistic)
    assert test.p == pytest.approx(expected.pvalue)
    assert test.degrees == rows - 1


def test_friedman_without_ties_is_demsars_formula_and_all_ties_give_zero():
    scores = random_scores(4, 9, seed=1)
    by_graph = {f"g{j}": {title: row[f"g{j}"] for title, row in scores.items()} for j in range(9)}
    ranks = mean_ranks(by_graph, list(scores))
    k, n = 4, 9
    expected = 12 * n / (k * (k + 1)) * (sum(value**2 for value in ranks.values()) - k * (k + 1) ** 2 / 4)
    assert friedman(by_graph).statistic == pytest.approx(expected)
    equal = friedman({"g": {"a": 1.0, "b": 1.0}, "h": {"a": 2.0, "b": 2.0}})
    assert (equal.statistic, equal.p) == (0, 1)


def test_critical_difference_has_demsars_constants():
    # Table 5 of Demšar (2006): q of Nemenyi's test at 0.05 for 2, 3, ..., 10 rows.
    constants = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)
    for rows, q in enumerate(constants, 2):
        assert critical_difference(rows, 14) == pytest.approx(q * (rows * (rows + 1) / (6 * 14)) ** 0.5, abs=1e-3)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)  # the example of Section 3.2.2


def test_pairs_are_wilcoxon_tests_with_holms_correction():
    scores = random_scores(4, 12, seed=3)
    ranking = rank(scores)
    found = [frozenset((pair.better, pair.worse)) for pair in ranking.pairs]
    assert found == list(map(frozenset, combinations(ranking.mean_ranks, 2)))
    for pair in ranking.pairs:
        d = [scores[pair.better][graph] - scores[pair.worse][graph] for graph in ranking.graphs]
        assert wilcoxon(d, method="exact", alternative="greater").pvalue <= 0.5
        assert pair.p == pytest.approx(wilcoxon(d, method="exact").pvalue)
        assert pair.p <= pair.corrected <= min(1, 6 * pair.p)


def test_the_better_row_of_a_pair_is_the_one_that_the_test_favours():
    # a is a little better than b on 21 of 40 graphs, and much worse on the others
    graphs = range(40)
    b = {f"g{i}": 49.9 - 0.001 * i if i < 21 else 55.0 + i for i in graphs}
    ranking = rank({"a": dict.fromkeys(b, 50.0), "b": b})
    (pair,) = ranking.pairs
    assert list(ranking.mean_ranks) == ["a", "b"]
    assert (pair.better, pair.worse) == ("b", "a")
    assert pair.corrected < 0.05
    assert (ranking.beaten_by("a"), ranking.beaten_by("b")) == (set(), {"a"})
    assert ranking.groups == ()


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_the_maximal_runs_without_a_significant_pair(seed):
    rng = np.random.default_rng(seed)
    scores = {f"m{i}": {f"g{j}": float(0.6 * i + rng.normal()) for j in range(15)} for i in range(7)}
    ranking = rank(scores)
    order = list(ranking.mean_ranks)
    assert [ranking.mean_ranks[title] for title in order] == sorted(ranking.mean_ranks.values())
    different = {frozenset((p.better, p.worse)) for p in ranking.pairs if p.corrected < 0.05}
    assert different  # the last row is far ahead of the first
    runs = [tuple(order[i:j]) for i in range(7) for j in range(i + 2, 8)]
    equal = [run for run in runs if not any(frozenset(pair) in different for pair in combinations(run, 2))]
    maximal = [run for run in equal if not any(set(run) < set(other) for other in equal)]
    assert sorted(ranking.groups) == sorted(maximal)


def test_rows_that_lack_a_graph_are_not_ranked():
    scores = {"a": {"x": 1.0, "y": 3.0}, "b": {"x": 2.0, "y": 1.0}, "c": {"x": 9.0}}
    ranking = rank(scores)
    assert ranking.mean_ranks == {"a": 1.5, "b": 1.5}
    assert ranking.means == {"a": 2.0, "b": 1.5}
    assert ranking.unranked == ("c",)
    assert rank({"a": {"x": 1.0, "y": 2.0}, "c": {"x": 9.0}}) is None
    assert rank({"a": {"x": 1.0}, "c": {"x": 9.0}}) is None
    assert rank({}) is None


def test_equal_scores_tie_despite_rounding():
    assert rank({"a": {"x": 0.1 + 0.2, "y": 1.0}, "b": {"x": 0.3, "y": 1.0}}).mean_ranks == {"a": 1.5, "b": 1.5}


def test_few_graphs_cannot_give_a_significant_pair():
    scores = {"a": dict.fromkeys("vwxyz", 2.0), "b": dict.fromkeys("vwxyz", 1.0)}
    ranking = rank(scores)
    assert ranking.pairs[0].corrected == ranking.smallest_p == 2 / 2**5
    assert ranking.groups == (("a", "b"),)
    assert rank({"a": dict.fromkeys("uvwxyz", 2.0), "b": dict.fromkeys("uvwxyz", 1.0)}).groups == ()


def test_graphs_with_the_same_nodes_count_once_in_mean_ranks_and_tests():
    graphs = ["Texas", "Cora", "CiteSeer", "Cornell", "PubMed"]
    values = random_scores(3, len(graphs), seed=5)
    scores = {title: dict(zip(graphs, row.values(), strict=True)) for title, row in values.items()}
    merged = {
        title: {
            "both": (row["Texas"] + row["Cornell"]) / 2,
            **{graph: row[graph] for graph in [*graphs[1:3], "PubMed"]},
        }
        for title, row in scores.items()
    }
    ranking, expected = rank(scores), rank(merged)
    assert ranking.graphs == tuple(graphs)
    assert ranking.observations == ("Texas and Cornell", "Cora", "CiteSeer", "PubMed")
    assert ranking.mean_ranks == expected.mean_ranks
    assert (ranking.pairs, ranking.friedman) == (expected.pairs, expected.friedman)
    assert (ranking.critical_difference, ranking.smallest_p) == (expected.critical_difference, expected.smallest_p)
    assert ranking.means == {title: pytest.approx(np.mean(list(row.values()))) for title, row in scores.items()}


def test_two_graphs_with_the_same_nodes_are_too_few_for_a_ranking():
    assert rank({"a": {"Texas": 1.0, "Cornell": 2.0}, "b": {"Texas": 2.0, "Cornell": 1.0}}) is None
