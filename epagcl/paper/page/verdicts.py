"""The claims of the paper, and a verdict on each from the results: the first table of the page."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from epagcl.paper import ablation, equal_settings
from epagcl.paper.artefact import Result
from epagcl.paper.page import judges
from epagcl.paper.page.judges import Verdict
from epagcl.paper.paired import DETECTABLE
from epagcl.paper.tables import Table


class Claim(NamedTuple):
    """A claim of the paper.

    Attributes:
        text: the claim.
        source: its place in the paper.
        artefact: the artefact that tests it.
        judge: judges the result of the artefact.
        rows: titles of the rows that it is about; empty for all rows of the artefact.
    """

    text: str
    source: str
    artefact: str
    judge: Callable[[Result], Verdict]
    rows: tuple[str, ...] = ()


def judged(results: Mapping[str, Result]) -> list[tuple[Claim, Verdict]]:
    """Return each claim whose artefact has been measured, with its verdict."""
    return [(claim, claim.judge(results[claim.artefact])) for claim in CLAIMS if claim.artefact in results]


def verdicts(results: Mapping[str, Result]) -> Table:
    """Return the table of the claims whose artefacts have been measured."""
    lines = [[claim.text, claim.source, *verdict] for claim, verdict in judged(results)]
    note = (
        "A claim is decided case by case, such as graph by graph. Where runs are compared, a paired test decides, "
        "corrected for overlapping splits and for the number of cases. A claim holds if every case is decided for it. "
        "It is contradicted if some cases are decided against it, and at least as many as for it. It holds in part if "
        "most cases are decided, and more of them for it than against it. Otherwise it is undecided. So one decided "
        "case can contradict a claim, and more than half of the cases are needed to support it. The theorems, the "
        "share of graphs with an EPR below 0.5, correlations with GCA and times of epochs are computed, without a "
        "test. EPR of sampled views has a t test over the views, and standard deviations have Pitman and Morgan's "
        "test; neither concerns overlapping splits. "
        f"Detectable, in points unless another unit is given: {DETECTABLE}."
    )
    columns = ["claim", "in the paper", "here", "evidence", "detectable"]
    return Table("", "What the paper claims, and what holds here", columns, lines, note)


_SIX = tuple(row.title for row in ablation.variants()[:6])
_EPAGCL_AND_GCA = ("EPAGCL", "GCA")
CLAIMS = (
    Claim("Dropping edges is better than adding them", "Figure 1", "add-vs-drop", judges.drop_over_add),
    Claim(
        "Random dropping disturbs EPR less than random adding",
        "Section 3",
        "theory",
        judges.steadier("uniform_drop", "uniform_add"),
    ),
    Claim(
        "Adding by Algorithm 1 disturbs EPR less than random adding",
        "Section 3",
        "theory",
        judges.steadier("eq7_add", "uniform_add"),
    ),
    Claim(
        "Dropping by Eq. (9) disturbs EPR less than random dropping",
        "Section 3",
        "theory",
        judges.steadier("eq7_drop", "uniform_drop"),
    ),
    Claim("Theorem 3.3", "Section 3", "theory", judges.theorem_3_3),
    Claim("Theorem 3.5", "Section 3", "theory", judges.theorem_3_5),
    Claim("The EPR of most graphs is below 0.5", "Appendix F", "epr", judges.epr_below_half),
    Claim("EPAGCL has the best mean rank", "Table 2", "accuracy", judges.first_place),
    Claim("EPAGCL reaches the reported accuracy", "Table 2", "accuracy", judges.reported_accuracy, ("EPAGCL",)),
    Claim(
        "EPAGCL has a lower standard deviation than GCA",
        "Table 2",
        "accuracy",
        judges.lower_deviation,
        _EPAGCL_AND_GCA,
    ),
    Claim("Edges that EPAGCL drops are preserved in GCA", "Section 2", "graphs", judges.preserved_in_gca),
    Claim("The improvement of EPAGCL is significant", "Appendix E", "significance", judges.significant),
    Claim(
        "EPAGCL is the best of six augmentations",
        "Figure 4",
        "ablation",
        judges.variant_over("EPAGCL", [title for title in _SIX if title != "EPAGCL"]),
        _SIX,
    ),
    Claim(
        "Drop Only is better than Add Only",
        "Figure 4",
        "ablation",
        judges.variant_over(ablation.DROP_ONLY, [ablation.ADD_ONLY]),
        (ablation.DROP_ONLY, ablation.ADD_ONLY),
    ),
    Claim(
        "Guided adding to both views is better than random adding",
        "Figure 4",
        "ablation",
        judges.variant_over(ablation.BOTH, [ablation.BASE]),
        (ablation.BOTH, ablation.BASE),
    ),
    Claim(
        "EPAGCL is better than GCA on heterophilous graphs",
        "Appendix G",
        "heterophily",
        judges.over_gca,
        (*_EPAGCL_AND_GCA, *equal_settings.OTHERS),
    ),
    Claim("An epoch costs about as much as an epoch of GCA", "Table 3", "burden", judges.burden),
)
