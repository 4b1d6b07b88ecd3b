"""GCA: GRACE with views that preserve central edges and feature columns."""

from typing import NamedTuple

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.core.streamed import StreamedMatrix
from epagcl.data.graph import Graph
from epagcl.data.large import LargeGraph, Subgraph
from epagcl.distributed.partition import Part
from epagcl.methods.contrast import Augmentation
from epagcl.methods.grace import GRACE
from epagcl.methods.settings import method_settings, setting
from epagcl.views.probabilities import WeightRange, normalise_from_max
from epagcl.views.restriction import weight_range
from epagcl.views.sampling import drop_views

DAMPING = 0.85
ROUNDS = 200  # number of power iterations; 0.85²⁰⁰ < 10⁻¹⁴
FLOOR = 1e-8  # lower bound of the eigenvector, which is 0 outside the leading component; as in the authors' code


class Importance(NamedTuple):
    """The centrality of all nodes, the range of all edge scores, and the share of each feature column."""

    phi: Tensor
    scores: WeightRange
    share: Tensor


@method_settings
class GCA(GRACE):
    r"""Adaptive augmentation: unimportant edges are dropped and unimportant feature columns hidden more often.

    .. math::
        s_{uv} = \log \tfrac{1}{2}(\varphi_u + \varphi_v), \quad
        p_{uv} = \min\left(\frac{s_{max} - s_{uv}}{s_{max} - \mu_s}\, p_e,\ p_\tau\right), \qquad
        r_j = \sum_v |x_{vj}|_0\, \varphi_v, \quad s_j = \log r_j

    where φ is the centrality of a node. p_j is computed from s_j as p_uv from s_uv, with p_f for p_e. From `"Graph
    Contrastive Learning with Adaptive Augmentation" <https://arxiv.org/abs/2010.14945>`_.

    The score of an edge is the mean over its two nodes, as the paper defines it for undirected graphs; the authors'
    code uses the target node only. PageRank follows the paper, with a constant teleport; the code uses a lazy walk
    whose limit is the degree. Signed features count by magnitude, as in the code for WikiCS. Columns without entries
    have probability p_f. If all centralities are equal, all edges have probability p_e.

    ``p_mask_1 = p_mask_2 = 0`` is the paper's GCA*.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> GCA(epochs=2, hidden=8, dim=4, projection=4, device="cpu").fit_embed(data).shape
        torch.Size([30, 4])
    """

    name = "gca"
    title = "GCA"
    paper = "Zhu et al., Graph Contrastive Learning with Adaptive Augmentation, WWW 2021"

    centrality: str = setting("degree", "centrality that makes a node important", ("degree", "pagerank", "eigenvector"))
    cutoff: float = setting(0.7, "highest drop and mask probability (p_τ)")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
        super().validate()
        if not 0 < self.cutoff <= 1:
            raise InputError(f"cutoff={self.cutoff}: must be above 0 and at most 1")

    def survey(self, graph: LargeGraph) -> Importance:
        """Compute the centrality of all nodes, and the importance of all feature columns, by chunks of rows."""
        ones = torch.ones(graph.num_nodes, dtype=torch.float64)
        phi = CENTRALITIES[self.centrality](StreamedMatrix([graph.csr], ones))
        of = weight_range(edge_scores(phi, pairs) for pairs, _ in graph.pair_chunks())
        spans = list(graph.x.spans())
        signed = any(_is_signed(graph.x.chunk(*span)) for span in spans)
        r = sum(
            (column_sums(graph.x.chunk(*span).to("cpu"), phi[slice(*span)], signed) for span in spans),
            torch.zeros(graph.num_features, dtype=torch.float64),
        )
        return Importance(phi, of, column_shares(r))

    def prepare(self, graph: Graph) -> Augmentation:
        """Return views from centralities, computed on the CPU in float64 to be the same on every device."""
        if isinstance(graph, Subgraph):
            whole: Importance = graph.survey
            phi, of, share = whole.phi[graph.nodes.cpu()], whole.scores, whole.share.to(graph.device)
        else:
            edges = graph.edges.to("cpu")
            phi = CENTRALITIES[self.centrality](
                SparseMatrix(edges.rowptr, edges.col, edges.value.double(), edges.shape, symmetric=True)
            )
            of, share = None, feature_shares(graph.x.to("cpu"), phi, graph.part).to(graph.device)
        views = drop_views(
            graph.pairs,
            graph.num_nodes,
            (self.p_drop_1, self.p_drop_2),
            seed=self.seed,
            score=edge_scores(phi, graph.pairs.cpu()),
            cutoff=self.cutoff,
            weight=graph.weight,
            origin=graph.origin,
            of=of,
            part=graph.part,
        )
        p_mask_1, p_mask_2 = (p and (share * p).clamp(max=self.cutoff) for p in (self.p_mask_1, self.p_mask_2))
        return Augmentation(views, (p_mask_1, p_mask_2))


def edge_scores(phi: Tensor, pairs: Tensor) -> Tensor:
    """Return log of the mean centrality of the two ends of each pair."""
    return (phi[pairs].sum(0) / 2).log()


def feature_shares(x: Tensor | SparseMatrix, phi: Tensor, part: Part | None = None) -> Tensor:
    """Return (s_max − s_j)/(s_max − mean s) of each column, float32; columns without entries are left out and get 1.

    Args:
        x: features of all nodes, or of those of this rank.
        phi: centrality of all nodes.
        part: the nodes of this rank; None: all.
    """
    if part is None:
        return column_shares(column_sums(x, phi, _is_signed(x)))
    signed = any(part.ranks.gathered(_is_signed(x)))
    return column_shares(part.sum(column_sums(x, phi[part.start : part.stop], signed)))


def column_shares(r: Tensor) -> Tensor:
    """Return :func:`feature_shares` from the weighted sum r of each column."""
    share = torch.ones_like(r)
    alive = r > 0  # log 0 = −∞ would make every probability NaN
    share[alive] = normalise_from_max(r[alive].log())
    return share.float()


def column_sums(x: Tensor | SparseMatrix, phi: Tensor, signed: bool) -> Tensor:
    """Return Σ_v φ_v [x_vj ≠ 0] of each column j; with signed features Σ_v φ_v |x_vj|."""
    if isinstance(x, SparseMatrix):
        return phi.new_zeros(x.shape[1]).index_add_(0, x.col.long(), phi[x.row] * _magnitude(x.value, signed))
    return phi @ _magnitude(x, signed)


def _is_signed(x: Tensor | SparseMatrix) -> bool:
    return bool(((x.value if isinstance(x, SparseMatrix) else x) < 0).any())


def _magnitude(x: Tensor, signed: bool) -> Tensor:
    """Return [x ≠ 0] for non-negative features and |x| for signed ones."""
    return (x.abs() if signed else (x != 0)).double()


# Node centralities from the adjacency matrix A, with weights if the graph has them; float64 on the CPU.


def degree(edges: SparseMatrix | StreamedMatrix) -> Tensor:
    """Return the row sums of A. Isolated nodes get 0; no edge uses this value."""
    return (edges @ torch.ones(edges.shape[1], 1, dtype=torch.float64))[:, 0]


def pagerank(edges: SparseMatrix | StreamedMatrix) -> Tensor:
    """Solve x = 0.85·A D⁻¹ x + 0.15 by power iteration, starting at 1. The mean is 1 in each component with edges."""
    d = degree(edges)
    d = torch.where(d > 0, d, 1)
    x = torch.ones_like(d)
    for _ in range(ROUNDS):
        x = DAMPING * (edges @ (x / d)[:, None])[:, 0] + 1 - DAMPING
    return x


def eigenvector(edges: SparseMatrix | StreamedMatrix) -> Tensor:
    """Return the leading eigenvector of A by power iteration with A + I.

    A + I has the same leading eigenvector, but no eigenvalue of equal magnitude and opposite sign.
    """
    x = torch.ones(edges.shape[0], dtype=torch.float64)
    for _ in range(ROUNDS):
        x = x + (edges @ x[:, None])[:, 0]
        x = x / x.norm()
    return x.clamp(min=FLOOR)


CENTRALITIES = {"degree": degree, "pagerank": pagerank, "eigenvector": eigenvector}
