r"""Ranking of methods over several graphs, after Demšar (2006).

On each graph the rows get ranks by their score: 1 for the best, and the mean rank where rows tie. The Friedman test
asks whether the mean ranks of k rows over N graphs differ at all. By Nemenyi's test, two rows differ if their mean
ranks are further apart than the critical difference

.. math:: \mathrm{CD} = q_\alpha \sqrt{\frac{k (k + 1)}{6 N}},

where :math:`q_\alpha` is the studentized range divided by :math:`\sqrt 2`. Nemenyi's test depends on the other rows of
the table. Groups of rows therefore come from Wilcoxon's signed-rank test of each pair over the graphs, with Holm's
correction (Benavoli, Corani & Mangili 2016).

These tests take each graph as an independent observation. Named graphs with the same nodes, features and labels, such
as Texas and Cornell, are therefore one observation: the mean of their scores.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from epagcl.core.formatting import listed
from epagcl.data.catalogue.entries import CATALOGUE
from epagcl.study.statistics import ALPHA, DECIMALS, holm, signed_rank

#: For a graph, another one that has the same nodes.
SAME_NODES = {entry.name: entry.same_nodes for entry in CATALOGUE.values() if entry.same_nodes}


@dataclass(frozen=True)
class Friedman:
    """The Friedman test of equal mean ranks, corrected for ties: the statistic, its degrees of freedom, and p.

    Examples:
        >>> rank({"a": {"x": 3, "y": 2}, "b": {"x": 1, "y": 0}}).friedman.statistic
        2.0
    """

    statistic: float
    degrees: int
    p: float


@dataclass(frozen=True)
class Pair:
    """Two rows, and the two-sided p of Wilcoxon's signed-rank test over the graphs, before and after correction.

    ``better`` is the row that the test favours, or the one with the better mean rank if it favours neither. Ranks
    within graphs and signed ranks of differences can favour different rows.

    Examples:
        >>> rank({"a": {"x": 3, "y": 2}, "b": {"x": 1, "y": 0}}).pairs
        (Pair(better='a', worse='b', p=0.5, corrected=0.5),)
    """

    better: str
    worse: str
    p: float
    corrected: float


@dataclass(frozen=True)
class Ranking:
    """The ranking of the rows that have a score on every graph.

    Attributes:
        graphs: the graphs.
        observations: what the tests count: the graphs, with those of the same nodes as one.
        mean_ranks: the mean rank of each ranked row, the best first.
        means: the mean score of each ranked row over the graphs.
        unranked: the rows that lack a graph.
        friedman: the test of equal mean ranks.
        critical_difference: the difference of mean ranks that is significant by Nemenyi's test.
        pairs: Wilcoxon's test of each pair of ranked rows.
        groups: the largest runs of at least two neighbours in the order of mean ranks in which no pair differs
            significantly after Holm's correction.
        alpha: the level of all tests.

    Examples:
        >>> ranking = rank({"a": {"x": 3, "y": 2}, "b": {"x": 1, "y": 0}, "c": {"x": 9}})
        >>> ranking.mean_ranks, ranking.unranked, ranking.groups
        ({'a': 1.0, 'b': 2.0}, ('c',), (('a', 'b'),))
    """

    graphs: tuple[str, ...]
    observations: tuple[str, ...]
    mean_ranks: dict[str, float]
    means: dict[str, float]
    unranked: tuple[str, ...]
    friedman: Friedman
    critical_difference: float
    pairs: tuple[Pair, ...]
    groups: tuple[tuple[str, ...], ...]
    alpha: float = ALPHA

    @property
    def same_nodes_note(self) -> str:
        """A sentence on the graphs that are one observation; empty if there are none."""
        return same_nodes_note(self.graphs, own=[graph for graph in self.graphs if graph in self.observations])

    @property
    def smallest_p(self) -> float:
        """The smallest corrected p with this number of observations, if all differences have the same sign."""
        return min(1.0, 2.0 ** (1 - len(self.observations)) * len(self.pairs))

    def beaten_by(self, title: str) -> set[str]:
        """Return the rows that are worse than a row by Wilcoxon's test over the graphs, after Holm's correction."""
        return {pair.worse for pair in self.pairs if pair.better == title and pair.corrected < self.alpha}

    def beaten_rows(self, title: str) -> str:
        """Return the rows that a row is significantly better than in words, such as ``every other row except b``."""
        beaten = self.beaten_by(title)
        rest = [other for other in self.mean_ranks if other != title and other not in beaten]
        return f"every other row{f' except {listed(rest)}' if rest else ''}" if beaten else "no other row"


def rank(scores: Mapping[str, Mapping[str, float]], own: Collection[str] = ()) -> Ranking | None:
    """Rank rows over graphs. Return None unless there are two graphs, and two rows with a score on every graph.

    Args:
        scores: the score of each row on each graph; larger is better. Rows may lack graphs.
        own: graphs that are not the named ones, even if they have such a name.

    Examples:
        >>> scores = {"a": {"x": 0.9, "y": 0.8, "z": 0.8}, "b": {"x": 0.7, "y": 0.8, "z": 0.6}}
        >>> rank(scores).mean_ranks
        {'a': 1.1666666666666667, 'b': 1.8333333333333333}
    """
    graphs = tuple(dict.fromkeys(graph for row in scores.values() for graph in row))
    complete = [title for title, row in scores.items() if len(row) == len(graphs)]
    by_graph = {graph: {title: scores[title][graph] for title in complete} for graph in graphs}
    observed = by_observation(by_graph, complete, own)
    if len(observed) < 2 or len(complete) < 2:
        return None
    ranks = mean_ranks(observed, complete)
    order = sorted(complete, key=ranks.__getitem__)
    pairs = _pairs(observed, order)
    return Ranking(
        graphs=graphs,
        observations=tuple(observed),
        mean_ranks={title: ranks[title] for title in order},
        means={title: fmean(scores[title].values()) for title in order},
        unranked=tuple(title for title in scores if title not in ranks),
        friedman=friedman(observed),
        critical_difference=critical_difference(len(order), len(observed)),
        pairs=pairs,
        groups=_groups(order, pairs),
    )


def observations(graphs: Sequence[str], own: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the observations that graphs give: each has one graph, or several with the same nodes.

    Args:
        graphs: names of graphs.
        own: graphs that are not the named ones, even if they have such a name.

    Examples:
        >>> observations(["Texas", "Cora", "Cornell"])
        {'Texas and Cornell': ['Texas', 'Cornell'], 'Cora': ['Cora']}
        >>> observations(["Cornell", "mine"])
        {'Cornell': ['Cornell'], 'mine': ['mine']}
        >>> observations(["Texas", "Cornell"], own=["Texas"])
        {'Texas': ['Texas'], 'Cornell': ['Cornell']}
    """
    groups: dict[str, list[str]] = {}
    for graph in graphs:
        twin = SAME_NODES.get(graph, graph)
        groups.setdefault(graph if {graph, twin} & {*own} else twin, []).append(graph)
    return {listed(group): group for group in groups.values()}


def by_observation(
    by_graph: Mapping[str, Mapping[str, float]], titles: Sequence[str], own: Collection[str] = ()
) -> dict[str, dict[str, float]]:
    """Return the mean score of each row in each observation, rounded so that equal scores tie.

    Args:
        by_graph: the score of each row on each graph.
        titles: rows with a score on every graph.
        own: graphs that are not the named ones, even if they have such a name.

    Examples:
        >>> by_observation({"Cora": {"a": 3.0}, "Texas": {"a": 1.0}, "Cornell": {"a": 2.0}}, ["a"])
        {'Cora': {'a': 3.0}, 'Texas and Cornell': {'a': 1.5}}
    """
    return {
        name: {title: round(fmean(by_graph[graph][title] for graph in group), DECIMALS) for title in titles}
        for name, group in observations(list(by_graph), own).items()
    }


def same_nodes_note(graphs: Sequence[str], own: Collection[str] = ()) -> str:
    """Return a sentence on graphs that are one observation, or nothing if there are none.

    Args:
        graphs: names of graphs.
        own: graphs that are not the named ones, even if they have such a name.

    Examples:
        >>> same_nodes_note(["Cora", "Texas", "Cornell"])
        'Texas and Cornell have the same nodes, features and labels. Mean ranks and tests over graphs count them once.'
        >>> same_nodes_note(["Cora", "Texas"])
        ''
    """
    return " ".join(
        f"{name} have the same nodes, features and labels. Mean ranks and tests over graphs count them once."
        for name, group in observations(graphs, own).items()
        if len(group) > 1
    )


def mean_ranks(by_graph: Mapping[str, Mapping[str, float]], titles: Sequence[str]) -> dict[str, float]:
    """Return the mean over graphs of each row's rank among the rows with a score there; ties share their mean rank.

    Args:
        by_graph: the score of each row on each graph.
        titles: the rows to rank.

    Examples:
        >>> mean_ranks({"x": {"a": 3, "b": 2}, "y": {"a": 1, "b": 1}}, ["a", "b"])
        {'a': 1.25, 'b': 1.75}
    """
    ranks: dict[str, list[float]] = {}
    for scores in by_graph.values():
        for title, place in _ranks({title: scores[title] for title in titles if title in scores}).items():
            ranks.setdefault(title, []).append(place)
    return {title: fmean(values) for title, values in ranks.items()}


def _ranks(scores: Mapping[str, float]) -> dict[str, float]:
    values = list(scores.values())
    return {
        title: sum(other > score for other in values) + (values.count(score) + 1) / 2 for title, score in scores.items()
    }


def friedman(by_graph: Mapping[str, Mapping[str, float]]) -> Friedman:
    r"""Test whether the mean ranks of k rows over N graphs are equal.

    .. math:: \chi^2_F = \frac{(k - 1) \sum_j (R_j - N (k + 1) / 2)^2}{\sum_{ij} (r_{ij} - (k + 1) / 2)^2}

    with the rank :math:`r_{ij}` of row j on graph i and :math:`R_j = \sum_i r_{ij}`. Without ties it equals Demšar's
    formula. If all rows tie on every graph, the statistic is 0.

    Args:
        by_graph: the score of each row on each graph; every graph has the same rows, at least two.

    Examples:
        >>> test = friedman({graph: {"a": 3, "b": 2, "c": 1} for graph in "wxyz"})
        >>> test.statistic, test.degrees, round(test.p, 4)
        (8.0, 2, 0.0183)
    """
    from scipy.stats import chi2

    ranks = [_ranks(scores) for scores in by_graph.values()]
    titles = list(ranks[0])
    centre = (len(titles) + 1) / 2
    within = sum((place - centre) ** 2 for row in ranks for place in row.values())
    between = sum(sum(row[title] - centre for row in ranks) ** 2 for title in titles)
    statistic = (len(titles) - 1) * between / within if within else 0.0
    return Friedman(statistic, len(titles) - 1, float(chi2.sf(statistic, len(titles) - 1)))


def critical_difference(rows: int, graphs: int) -> float:
    """Return the difference of two mean ranks that is significant by Nemenyi's test.

    Args:
        rows: number of ranked rows.
        graphs: number of graphs.

    Examples:
        >>> round(critical_difference(5, 30), 3)  # Demšar's q is 2.728
        1.114
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - ALPHA, rows, float("inf"))) / 2**0.5
    return q * (rows * (rows + 1) / (6 * graphs)) ** 0.5


def _pairs(by_graph: Mapping[str, Mapping[str, float]], order: Sequence[str]) -> tuple[Pair, ...]:
    """Test each pair of rows."""
    names, p = [], []
    for first, second in combinations(order, 2):
        test = signed_rank([scores[first] - scores[second] for scores in by_graph.values()])
        names.append((first, second) if test["better"] <= test["worse"] else (second, first))
        p.append(test["two_sided"])
    return tuple(Pair(*name, *values) for name, *values in zip(names, p, holm(p), strict=True))


def _groups(order: Sequence[str], pairs: Sequence[Pair]) -> tuple[tuple[str, ...], ...]:
    """Return the largest runs of at least two rows in which no pair differs significantly."""
    different = {frozenset((pair.better, pair.worse)) for pair in pairs if pair.corrected < ALPHA}
    groups: list[tuple[str, ...]] = []
    reached = 0  # the end of the last group: a run that ends there or before is part of it
    for start in range(len(order)):
        end = start + 1
        while end < len(order) and not any(frozenset((title, order[end])) in different for title in order[start:end]):
            end += 1
        if end > max(reached, start + 1):
            groups.append(tuple(order[start:end]))
            reached = end
    return tuple(groups)
