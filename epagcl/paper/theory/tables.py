"""Tables of the theory artefact: the EPR of views, and how often each theorem is right."""

from typing import Any

from epagcl.core.formatting import mean_and_std
from epagcl.paper.artefact import Result
from epagcl.paper.tables import Table
from epagcl.paper.theory.theorems import FAMILIES, P_ADD, RATES, SAMPLE

#: Title of each augmentation of :func:`epagcl.paper.theory.theorems.augmentations`. The keys ``eq7_*`` of stored
#: results mean Eq. (9).
AUGMENTATIONS = {
    "uniform_drop": "uniform drop",
    "eq7_drop": "Eq. (9) drop",
    "text_drop": "text's drop",
    "uniform_add": "uniform add",
    "eq7_add": "Eq. (9) add",
    "second_view": "Eq. (9) drop + add",
    "oracle_drop": "oracle drop",
}
#: Description of each kind of changed pairs of :func:`epagcl.paper.theory.theorems.changed_pairs`.
KINDS = {"added": "random absent pairs", "candidates": "Algorithm 1's candidates", "dropped": "edges dropped"}

#: The two readings of Â by their key in a result: what stands under the root.
READINGS = {"d": "d", "d1": "d+1"}
_CELLS = [(where, form) for where in ("within", "between") for form in READINGS]


def wilson(count: float, total: float, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share: (p + z²/2n ± z√(p(1 − p)/n + z²/4n²)) / (1 + z²/n)."""
    p, square = count / total, z * z / total
    half = z * (p * (1 - p) / total + square / (4 * total)) ** 0.5
    return max(0.0, (p + square / 2 - half) / (1 + square)), min(1.0, (p + square / 2 + half) / (1 + square))


def family_title(row: dict[str, Any]) -> str:
    """Return the title of a family of random graphs."""
    return str(row["family"]) + (", homophilous" if row["stay"] else "")


def three_digits(value: float | None) -> str:
    """Return a number with three digits after the decimal point, or a dash for None."""
    return "–" if value is None else f"{value:.3f}"


def tables(result: Result) -> list[Table]:
    """Return the tables of views, at two rates and per edge and per node, and those of the theorems."""
    views = [
        _views_table(result, "", RATES[0], "edge"),
        _views_table(result, "per-node", RATES[0], "node"),
        _views_table(result, "rate-0.1", RATES[1], "edge"),
    ]
    theorem_3_3 = [_additions_table(result), _candidates_table(result), _small_graphs_table(result)]
    return [*views, *theorem_3_3, _theorem_3_5_table(result)]


def _views_table(result: Result, slug: str, rate: float, per: str) -> Table:
    rows = []
    for name, graph in result["graphs"].items():
        cells = graph["views"]["rates"][str(rate)]
        changes = [_signed_mean_and_std(*cells[key][per]) for key in AUGMENTATIONS]
        rows.append([name, f"{100 * graph['views']['epr'][per]:.2f}", *changes])
    rows += [[name, reason, *["–"] * len(AUGMENTATIONS)] for name, reason in result["absent"].items()]
    views = sorted({graph["views"]["views"] for graph in result["graphs"].values()}, reverse=True)
    note = (
        f"EPR(view) − EPR(graph) per {per}, in units of 0.01, mean ± standard deviation over "
        f"{' or '.join(map(str, views))} views. The expected number of changed edges is {rate:g}·|E| (drop + add: "
        f"{rate:g}·|E| dropped, {P_ADD:g}·|E| added). Text's drop: edges of small α instead of large α. Oracle drop: "
        "edges between classes 0.85/0.15 times as often as others. Measured here; the paper reports none of these "
        "numbers."
    )
    title = f"EPR per {per} of views with {rate:g}·|E| changed edges"
    return Table(slug, title, ["graph", "EPR", *AUGMENTATIONS.values()], rows, note, folded=bool(slug))


def _signed_mean_and_std(mean: float, std: float) -> str:
    """Return a change in units of 0.01 with its sign; a negative change that rounds to 0 has none."""
    rounds_to_minus_zero = f"{100 * mean:.2f}" == "-0.00"
    sign = "" if rounds_to_minus_zero else "-" if mean < 0 else "+"
    return sign + mean_and_std(abs(100 * mean), 100 * std, digits=2)


def _share(counts: list[float], interval: bool = False) -> str:
    """Return the share of contradictions in percent, or a dash without any changes."""
    total, against = counts[:2]
    if total == 0:
        return "–"
    low, high = wilson(against, total)
    return f"{100 * against / total:.2f}" + (f" [{100 * low:.2f}, {100 * high:.2f}]" if interval else "")


def repaired_share(counts: dict[str, list[float]]) -> float | None:
    """Return the share of changes that meet the condition of the repaired theorem, or None without any changes."""
    total, *_, covered, _ = (sum(column) for column in zip(*counts.values(), strict=True))
    return covered / total if total else None


def _repaired(counts: dict[str, list[float]]) -> str:
    share = repaired_share(counts)
    return "–" if share is None else f"{100 * share:.2f}"


def _additions_table(result: Result) -> Table:
    columns = ["graphs", "degrees", "conditions", *(f"{where}, {READINGS[form]}" for where, form in _CELLS)]
    columns += [f"repaired, {under_root}" for under_root in READINGS.values()]
    rows = []
    for row in result["random_graphs"]:
        low, high = FAMILIES[row["family"]]
        shares = [_share(row["added"][form][where], interval=True) for where, form in _CELLS]
        shares += [_repaired(row["added"][form]) for form in READINGS]
        rows.append([f"{row['graphs']} {family_title(row)}", f"{low}–{high}", "met", *shares])
    for name, graph in result["graphs"].items():
        added, conditions = graph["theorem_3_3"]["added"], graph["theorem_3_3"]["conditions"]
        shares = [_share(added[form][where]) for where, form in _CELLS]
        shares += [_repaired(added[form]) for form in READINGS]
        degrees = f"{conditions['d_min']}–{conditions['d_max']}"
        rows.append([name, degrees, "met" if conditions["holds"] else "not met", *shares])
    note = (
        "Share in % of single additions that contradict Theorem 3.3, with Wilson's 95% interval: an addition within a "
        "class that raises EPR per edge, or one between classes that lowers it. Each share stands twice: with d under "
        "the root of Â, as in the theorem's proof, and with d+1, as in the paper's definition of Â. Additions are "
        f"random absent pairs, at most {SAMPLE:,} within a class and {SAMPLE:,} between classes. repaired: share in % "
        "of additions that meet the condition of the repaired theorem, which has no exceptions. Measured here."
    )
    return Table("theorem-3-3", "Additions that contradict Theorem 3.3", columns, rows, note)


def _candidates_table(result: Result) -> Table:
    kinds = {"candidates": "candidates", "dropped": "drop"}
    columns = ["graph", *(f"{word} {where}, {READINGS[form]}" for word in kinds.values() for where, form in _CELLS)]
    columns += [f"{word} repaired, {under_root}" for word in kinds.values() for under_root in READINGS.values()]
    rows = []
    for name, graph in result["graphs"].items():
        theorem = graph["theorem_3_3"]
        shares = [_share(theorem[kind][form][where]) for kind in kinds for where, form in _CELLS]
        rows.append([name, *shares, *(_repaired(theorem[kind][form]) for kind in kinds for form in READINGS)])
    note = (
        "As in the table above, for the candidates of Algorithm 1 and for edges that are dropped. A drop within a "
        "class that lowers EPR per edge, or one between classes that raises it, contradicts the theorem. At most "
        f"{2 * SAMPLE:,} pairs of each kind. Measured here."
    )
    title = "Candidates and drops that contradict Theorem 3.3"
    return Table("theorem-3-3-candidates", title, columns, rows, note, folded=True)


def _small_graphs_table(result: Result) -> Table:
    conditions = {"all": "additions", "paper": "paper's", "repaired": "repaired", "degrees": "degrees"}
    columns = [
        "nodes",
        "under the root",
        *(f"{word}{what}" for word in conditions.values() for what in ("", ": against")),
    ]
    rows = [
        [str(row["nodes"]), READINGS[row["form"]], *(f"{count:,}" for key in conditions for count in row[key])]
        for row in result["small_graphs"]
    ]
    note = (
        "All graphs of so many nodes that have an edge, with all assignments of up to three classes, up to the names "
        "of the two joined nodes and of their classes. The columns count the additions of an edge, those that meet the "
        "paper's conditions, those that meet the condition of the repaired theorem, and those that meet its form for "
        "degrees; against: how many of these contradict Theorem 3.3. Measured here."
    )
    return Table("theorem-3-3-small", "Theorem 3.3 on all small graphs", columns, rows, note, folded=True)


def _theorem_3_5_table(result: Result) -> Table:
    columns = ["graph", *(f"{kind}: {what}" for kind in KINDS for what in ("sign", "r", "ratio"))]
    rows = []
    for name, graph in result["graphs"].items():
        row = [name]
        for kind in KINDS:
            agreement = graph["theorem_3_5"][kind]
            row += [f"{100 * agreement['sign']:.1f}", three_digits(agreement["pearson"]), f"{agreement['ratio']:.2f}"]
        rows.append(row)
    note = (
        f"At most {2 * SAMPLE:,} pairs of each kind (random absent pairs added, Algorithm 1's candidates added, edges "
        "dropped), half of them within a class if there are enough. sign: share in % whose change of EPR per edge has "
        "the predicted sign; r: Pearson's correlation of predicted and exact change; ratio: median of "
        "|predicted|/|exact|."
    )
    return Table("theorem-3-5", "Theorem 3.5 against the exact change of EPR", columns, rows, note)
