"""The paper's claims one by one, and what the results say of each: the first table of the page."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from epagcl.paper import ablation, accuracy, add_vs_drop, significance, theory
from epagcl.paper.artefact import Result
from epagcl.paper.tables import Table

Verdict = tuple[str, str]
NOT_MEASURED: Verdict = ("not measured", "")


def verdicts(results: dict[str, Result]) -> Table:
    """A line for each claim whose artefact has been measured: the claim, where it stands, whether it holds, by what."""
    lines = []
    for claim, where, needs, judge in CLAIMS:
        if needs in results:
            word, evidence = judge(results[needs])
            lines.append([claim, where, word, evidence])
    note = "Holds: in every case that was measured; in part: in at least half of them. The sections below say how."
    return Table("", "What the paper claims, and what holds here", ["claim", "in the paper", "here", "by"], lines, note)


def _share(count: int, total: int, of: str) -> Verdict:
    """Holds in all cases, in at least half, or in fewer."""
    word = "not measured" if not total else "holds" if count == total else "in part" if 2 * count >= total else "no"
    return word, f"{count} of {total} {of}"


def _drop_over_add(result: Result) -> Verdict:
    protocol = result["asked"]["protocols"][0]
    told = {g: add_vs_drop.gaps(result, protocol, g) for g in accuracy.graphs_of(result) if g not in result["absent"]}
    gaps = [gap for found in told.values() for gap, _, _ in found.values()]
    sure = sum(low > 0 for found in told.values() for _, low, _ in found.values())
    few = min((len(runs) for g in told for runs in add_vs_drop.curves(result, protocol, g)["add"].values()), default=0)
    word, evidence = _share(
        sum(gap > 0 for gap in gaps), len(gaps), f"pairs of graph and rate, {few} runs or more each"
    )
    return (
        word,
        f"{evidence}, in {sure} the 95% interval excludes 0 ({', '.join(g for g, found in told.items() if found)})",
    )


def _steadier(one: str, other: str) -> Callable[[Result], Verdict]:
    def judge(result: Result) -> Verdict:
        ones, others = theory.sizes(result, one), theory.sizes(result, other)
        return _share(sum(ones[name] < others[name] for name in ones), len(ones), "graphs")

    return judge


def _theorem_3_3(result: Result) -> Verdict:
    kinds = ("within", "between")
    if not result["random_graphs"]:
        return NOT_MEASURED
    total, against = (sum(theory.counted(result, "d", kind)[place] for kind in kinds) for place in range(2))
    word = "holds" if not against else "no"
    return word, f"{against / total:.1%} of additions on random graphs within its conditions go against it"


def _theorem_3_5(result: Result) -> Verdict:
    if not result["graphs"]:
        return NOT_MEASURED
    signs = [graph["theorem_3_5"]["added"]["sign"] for graph in result["graphs"].values()]
    return "exact under its assumption", f"without it the sign is right for {median(signs):.0%} of random additions"


def _epr_below_half(result: Result) -> Verdict:
    above = [name for name, graph in result["graphs"].items() if graph["per_node"] >= 0.5]
    below, total = len(result["graphs"]) - len(above), len(result["graphs"])
    word = "holds" if 2 * below > total else "no"
    return word, f"{below} of {total} graphs" + (f"; not {', '.join(above)}" if above else "")


def _first_place(result: Result) -> Verdict:
    protocol = result["asked"]["protocols"][0]
    graphs = [graph for graph in accuracy.graphs_of(result) if accuracy.scores(result, protocol, graph)]
    ranks = accuracy.mean_ranks({g: accuracy.scores(result, protocol, g) for g in graphs}, accuracy.ranked(result))
    if "EPAGCL" not in ranks:
        return NOT_MEASURED
    place = 1 + sum(rank < ranks["EPAGCL"] for rank in ranks.values())
    return "holds" if place == 1 else "no", f"place {place} of {len(ranks)} by mean rank, {protocol} protocol"


def _reached(result: Result) -> Verdict:
    protocol = "paper" if "paper" in result["asked"]["protocols"] else result["asked"]["protocols"][0]
    gap = accuracy.gaps(result, protocol).get("EPAGCL")
    if gap is None:
        return NOT_MEASURED
    return "holds" if gap >= -0.5 else "no", f"{gap:+.1f} points on average, paper's protocol and settings, last epoch"


def _significant(result: Result) -> Verdict:
    protocol = result["protocols"][0]
    found = [significance.verdict(one) for one in result["comparisons"] if one["protocol"] == protocol]
    tested = [word for word in found if word != "untested"]
    word, evidence = _share(tested.count("better"), len(tested), "pairs of graph and method are significantly better")
    return word, f"{evidence}, {tested.count('worse')} worse ({protocol} protocol)"


def _variant(one: str, others: Sequence[str]) -> Callable[[Result], Verdict]:
    def judge(result: Result) -> Verdict:
        protocol = result["asked"]["protocols"][0]
        told = [ablation.gains(result, protocol, g) for g in accuracy.graphs_of(result) if g not in result["absent"]]
        whole = [found for found in told if {one, *others} <= set(found)]
        return _share(sum(all(f[one].mean > f[o].mean for o in others) for f in whole), len(whole), "graphs")

    return judge


def _over_gca(result: Result) -> Verdict:
    found = [accuracy.scores(result, "paper", g) for g in accuracy.graphs_of(result) if g not in result["absent"]]
    both = [scores for scores in found if {"EPAGCL", "GCA"} <= set(scores)]
    return _share(sum(scores["EPAGCL"] > scores["GCA"] for scores in both), len(both), "graphs, paper's protocol")


def _burden(result: Result) -> Verdict:
    cells: dict[tuple[str, str], dict[str, Any]] = {(cell["graph"], cell["method"]): cell for cell in result["cells"]}
    ratios = {
        graph: cells[graph, "EPAGCL"]["seconds_per_epoch"] / cells[graph, "GCA"]["seconds_per_epoch"]
        for graph in result["graphs"]
        if all("seconds_per_epoch" in cells.get((graph, title), {}) for title in ("EPAGCL", "GCA"))
    }
    told = ", ".join(f"{graph} {ratio:.2f}" for graph, ratio in ratios.items())
    if not ratios:
        return NOT_MEASURED
    return "holds" if max(ratios.values()) <= 1.5 else "no", f"times GCA's epoch: {told}"


_SIX = [row.title for row in ablation.variants()[:6]]
#: The claim, where it stands, the artefact that speaks to it, and how it is judged.
CLAIMS: tuple[tuple[str, str, str, Callable[[Result], Verdict]], ...] = (
    ("Dropping edges is better than adding them", "Figure 1", "add-vs-drop", _drop_over_add),
    (
        "Random dropping disturbs EPR less than random adding",
        "Section 3",
        "theory",
        _steadier("uniform_drop", "uniform_add"),
    ),
    (
        "Adding by Algorithm 1 disturbs it less than random adding",
        "Section 3",
        "theory",
        _steadier("eq7_add", "uniform_add"),
    ),
    (
        "Dropping by Eq. 7 disturbs it less than random dropping",
        "Section 3",
        "theory",
        _steadier("eq7_drop", "uniform_drop"),
    ),
    ("Theorem 3.3", "Section 3", "theory", _theorem_3_3),
    ("Theorem 3.5", "Section 3", "theory", _theorem_3_5),
    ("The EPR of most graphs is below 0.5", "Appendix F", "epr", _epr_below_half),
    ("EPAGCL has the best mean rank", "Table 2", "accuracy", _first_place),
    ("EPAGCL reaches the reported accuracy", "Table 2", "accuracy", _reached),
    ("Its improvement is significant", "Appendix E", "significance", _significant),
    (
        "EPAGCL is the best of six augmentations",
        "Figure 4",
        "ablation",
        _variant("EPAGCL", [t for t in _SIX if t != "EPAGCL"]),
    ),
    ("Drop Only is better than Add Only", "Figure 4", "ablation", _variant(ablation.DROP_ONLY, [ablation.ADD_ONLY])),
    (
        "Guided adding to both views is better than random adding",
        "Figure 4",
        "ablation",
        _variant(ablation.BOTH, [ablation.BASE]),
    ),
    ("EPAGCL is better than GCA on heterophilous graphs", "Appendix G", "heterophily", _over_gca),
    ("An epoch costs about as much as GCA's", "Table 3", "burden", _burden),
)
