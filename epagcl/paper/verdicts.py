"""The claims of the paper, and a verdict on each from the results: the first table of the page."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from epagcl.paper import ablation, add_vs_drop, theory_reading
from epagcl.paper.artefact import Result
from epagcl.paper.cell_scores import (
    graphs_of,
    measured_graphs,
    reported_gaps,
    scores,
    self_supervised_titles,
)
from epagcl.paper.paired import verdict
from epagcl.paper.tables import Table
from epagcl.study.ranking import mean_ranks


class Verdict(NamedTuple):
    """Whether a claim holds, and the evidence."""

    word: str
    evidence: str


NOT_MEASURED = Verdict("not measured", "")


class Claim(NamedTuple):
    """A claim of the paper, its place there, the artefact that tests it, and the function that judges the result."""

    text: str
    source: str
    artefact: str
    judge: Callable[[Result], Verdict]


def verdicts(results: dict[str, Result]) -> Table:
    """Return a table with a line for each claim whose artefact has been measured."""
    lines = []
    for claim in CLAIMS:
        if claim.artefact in results:
            word, evidence = claim.judge(results[claim.artefact])
            lines.append([claim.text, claim.source, word, evidence])
    note = (
        "A claim holds if it is true in every measured case. It holds in part if it is true in at least half of them. "
        "The sections below give the details."
    )
    columns = ["claim", "in the paper", "here", "evidence"]
    return Table("", "What the paper claims, and what holds here", columns, lines, note)


def _share_verdict(count: int, total: int, cases: str) -> Verdict:
    """Return whether a claim holds in all cases, in at least half, or in fewer."""
    word = "not measured" if not total else "holds" if count == total else "in part" if 2 * count >= total else "no"
    return Verdict(word, f"{count} of {total} {cases}")


def _drop_over_add(result: Result) -> Verdict:
    protocol = result["asked"]["protocols"][0]
    graphs = measured_graphs(result)
    by_graph = {graph: add_vs_drop.gaps(result, protocol, graph) for graph in graphs}
    gaps = [gap for by_rate in by_graph.values() for gap in by_rate.values()]
    certain = sum(low > 0 for _, low, _ in gaps)
    runs = [len(runs) for graph in graphs for runs in add_vs_drop.curves(result, protocol, graph)["add"].values()]
    word, evidence = _share_verdict(
        sum(gap > 0 for gap, _, _ in gaps),
        len(gaps),
        f"pairs of graph and rate with at least {min(runs, default=0)} runs each",
    )
    listed = ", ".join(graph for graph, by_rate in by_graph.items() if by_rate)
    return Verdict(word, f"{evidence}; the 95% interval excludes 0 in {certain} ({listed})")


def _steadier(one: str, other: str) -> Callable[[Result], Verdict]:
    def judge(result: Result) -> Verdict:
        ours, others = theory_reading.sizes(result, one), theory_reading.sizes(result, other)
        return _share_verdict(sum(ours[name] < others[name] for name in ours), len(ours), "graphs")

    return judge


def _theorem_3_3(result: Result) -> Verdict:
    if not result["random_graphs"]:
        return NOT_MEASURED
    shares = {form: theory_reading.contradicted(result, form) for form in ("d", "d1")}
    families = {form: theory_reading.contradicted_by_family(result, form).values() for form in shares}
    with_d, with_d1 = (
        f"{shares[form]:.2%} (by family {min(of):.1%} to {max(of):.1%})" for form, of in families.items()
    )
    exceptions = theory_reading.repaired_exceptions(result)
    evidence = (
        f"contradicted by {with_d} of additions to random graphs that meet its conditions with its proof's d, by "
        f"{with_d1} with d+1; repaired, it is proved and has {exceptions or 'no'} exceptions"
    )
    return Verdict("no" if any(shares.values()) else "holds", evidence)


def _theorem_3_5(result: Result) -> Verdict:
    if not result["graphs"]:
        return NOT_MEASURED
    signs = [graph["theorem_3_5"]["added"]["sign"] for graph in result["graphs"].values()]
    evidence = f"without it, the sign is right for {median(signs):.0%} of random additions"
    return Verdict("exact under its assumption", evidence)


def _epr_below_half(result: Result) -> Verdict:
    above = [name for name, graph in result["graphs"].items() if graph["per_node"] >= 0.5]
    below, total = len(result["graphs"]) - len(above), len(result["graphs"])
    exceptions = f"; not {', '.join(above)}" if above else ""
    return Verdict("holds" if 2 * below > total else "no", f"{below} of {total} graphs{exceptions}")


def _first_place(result: Result) -> Verdict:
    protocol = result["asked"]["protocols"][0]
    by_graph = {graph: scores(result, protocol, graph) for graph in graphs_of(result)}
    ranks = mean_ranks(by_graph, self_supervised_titles(result))
    if "EPAGCL" not in ranks:
        return NOT_MEASURED
    place = 1 + sum(rank < ranks["EPAGCL"] for rank in ranks.values())
    evidence = f"place {place} of {len(ranks)} by mean rank, {protocol} protocol"
    return Verdict("holds" if place == 1 else "no", evidence)


def _reported_accuracy(result: Result) -> Verdict:
    protocols = result["asked"]["protocols"]
    gap = reported_gaps(result, "paper" if "paper" in protocols else protocols[0]).get("EPAGCL")
    if gap is None:
        return NOT_MEASURED
    evidence = f"{gap:+.1f} points on average with the paper's protocol and settings, last epoch"
    return Verdict("holds" if gap >= -0.5 else "no", evidence)


def _significant(result: Result) -> Verdict:
    protocol = result["protocols"][0]
    words = [verdict(comparison) for comparison in result["comparisons"] if comparison["protocol"] == protocol]
    tested = [word for word in words if word != "untested"]
    cases = "pairs of graph and method are significantly better"
    word, evidence = _share_verdict(tested.count("better"), len(tested), cases)
    return Verdict(word, f"{evidence}, {tested.count('worse')} are worse ({protocol} protocol)")


def _variant_over(one: str, others: Sequence[str]) -> Callable[[Result], Verdict]:
    def judge(result: Result) -> Verdict:
        protocol = result["asked"]["protocols"][0]
        by_graph = [ablation.gains(result, protocol, graph) for graph in measured_graphs(result)]
        complete = [gains for gains in by_graph if {one, *others} <= set(gains)]
        best = sum(all(gains[one].mean > gains[other].mean for other in others) for gains in complete)
        return _share_verdict(best, len(complete), "graphs")

    return judge


def _over_gca(result: Result) -> Verdict:
    by_graph = [scores(result, "paper", graph) for graph in measured_graphs(result)]
    both = [by_row for by_row in by_graph if {"EPAGCL", "GCA"} <= set(by_row)]
    better = sum(by_row["EPAGCL"] > by_row["GCA"] for by_row in both)
    return _share_verdict(better, len(both), "graphs, paper's protocol")


def _burden(result: Result) -> Verdict:
    cells: dict[tuple[str, str], dict[str, Any]] = {(cell["graph"], cell["method"]): cell for cell in result["cells"]}
    ratios = {
        graph: cells[graph, "EPAGCL"]["seconds_per_epoch"] / cells[graph, "GCA"]["seconds_per_epoch"]
        for graph in result["graphs"]
        if all("seconds_per_epoch" in cells.get((graph, title), {}) for title in ("EPAGCL", "GCA"))
    }
    if not ratios:
        return NOT_MEASURED
    listed = ", ".join(f"{graph} {ratio:.2f}" for graph, ratio in ratios.items())
    return Verdict("holds" if max(ratios.values()) <= 1.5 else "no", f"ratio of epoch times: {listed}")


_SIX = [row.title for row in ablation.variants()[:6]]
CLAIMS = (
    Claim("Dropping edges is better than adding them", "Figure 1", "add-vs-drop", _drop_over_add),
    Claim(
        "Random dropping disturbs EPR less than random adding",
        "Section 3",
        "theory",
        _steadier("uniform_drop", "uniform_add"),
    ),
    Claim(
        "Adding by Algorithm 1 disturbs EPR less than random adding",
        "Section 3",
        "theory",
        _steadier("eq7_add", "uniform_add"),
    ),
    Claim(
        "Dropping by Eq. (9) disturbs EPR less than random dropping",
        "Section 3",
        "theory",
        _steadier("eq7_drop", "uniform_drop"),
    ),
    Claim("Theorem 3.3", "Section 3", "theory", _theorem_3_3),
    Claim("Theorem 3.5", "Section 3", "theory", _theorem_3_5),
    Claim("The EPR of most graphs is below 0.5", "Appendix F", "epr", _epr_below_half),
    Claim("EPAGCL has the best mean rank", "Table 2", "accuracy", _first_place),
    Claim("EPAGCL reaches the reported accuracy", "Table 2", "accuracy", _reported_accuracy),
    Claim("The improvement of EPAGCL is significant", "Appendix E", "significance", _significant),
    Claim(
        "EPAGCL is the best of six augmentations",
        "Figure 4",
        "ablation",
        _variant_over("EPAGCL", [title for title in _SIX if title != "EPAGCL"]),
    ),
    Claim(
        "Drop Only is better than Add Only",
        "Figure 4",
        "ablation",
        _variant_over(ablation.DROP_ONLY, [ablation.ADD_ONLY]),
    ),
    Claim(
        "Guided adding to both views is better than random adding",
        "Figure 4",
        "ablation",
        _variant_over(ablation.BOTH, [ablation.BASE]),
    ),
    Claim("EPAGCL is better than GCA on heterophilous graphs", "Appendix G", "heterophily", _over_gca),
    Claim("An epoch costs about as much as an epoch of GCA", "Table 3", "burden", _burden),
)
