"""GCA: GRACE with views that preserve central edges and feature columns."""

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.data.graph import Graph
from epagcl.distributed.partition import Part
from epagcl.methods.contrast import Augmentation
from epagcl.methods.grace import GRACE
from epagcl.methods.settings import method_settings, setting
from epagcl.views.probabilities import normalise_from_max
from epagcl.views.sampling import drop_views

DAMPING = 0.85
ROUNDS = 200  # number of power iterations; 0.85²⁰⁰ < 10⁻¹⁴
FLOOR = 1e-8  # lower bound of the eigenvector, which is 0 outside the leading component; as in the authors' code


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

    def prepare(self, graph: Graph) -> Augmentation:
        """Return views from centralities, computed on the CPU in float64 to be the same on every device."""
        edges = graph.edges.to("cpu")
        phi = CENTRALITIES[self.centrality](
            SparseMatrix(edges.rowptr, edges.col, edges.value.double(), edges.shape, symmetric=True)
        )
        score = (phi[graph.pairs.cpu()].sum(0) / 2).log()
        rates = (self.p_drop_1, self.p_drop_2)
        views = drop_views(
            graph.pairs,
            graph.num_nodes,
            rates,
            seed=self.seed,
            score=score,
            cutoff=self.cutoff,
            weight=graph.weight,
            part=graph.part,
        )
        share = feature_shares(graph.x.to("cpu"), phi, graph.part).to(graph.device)
        p_mask_1, p_mask_2 = (p and (share * p).clamp(max=self.cutoff) for p in (self.p_mask_1, self.p_mask_2))
        return Augmentation(views, (p_mask_1, p_mask_2))


def feature_shares(x: Tensor | SparseMatrix, phi: Tensor, part: Part | None = None) -> Tensor:
    """Return (s_max − s_j)/(s_max − mean s) of each column, float32; columns without entries are left out and get 1.

    Args:
        x: features of all nodes, or of those of this rank.
        phi: centrality of all nodes.
        part: the nodes of this rank; None: all.
    """
    phi = phi if part is None else phi[part.start : part.stop]
    value = x.value if isinstance(x, SparseMatrix) else x
    signed = bool((value < 0).any()) if part is None else any(part.ranks.gathered(bool((value < 0).any())))
    magnitude = (value.abs() if signed else (value != 0)).double()  # |x| for signed features, else [x ≠ 0]
    if isinstance(x, SparseMatrix):
        r = phi.new_zeros(x.shape[1]).index_add_(0, x.col.long(), phi[x.row] * magnitude)
    else:
        r = phi @ magnitude
    r = r if part is None else part.sum(r)
    share = torch.ones_like(r)
    alive = r > 0  # log 0 = −∞ would make every probability NaN
    share[alive] = normalise_from_max(r[alive].log())
    return share.float()


# Node centralities from the adjacency matrix A, with weights if the graph has them; float64 on the CPU.


def degree(edges: SparseMatrix) -> Tensor:
    """Return the row sums of A. Isolated nodes get 0; no edge uses this value."""
    return (edges @ edges.value.new_ones(edges.shape[1], 1))[:, 0]


def pagerank(edges: SparseMatrix) -> Tensor:
    """Solve x = 0.85·A D⁻¹ x + 0.15 by power iteration, starting at 1. The mean is 1 in each component with edges."""
    d = degree(edges)
    d = torch.where(d > 0, d, 1)
    x = torch.ones_like(d)
    for _ in range(ROUNDS):
        x = DAMPING * (edges @ (x / d)[:, None])[:, 0] + 1 - DAMPING
    return x


def eigenvector(edges: SparseMatrix) -> Tensor:
    """Return the leading eigenvector of A by power iteration with A + I.

    A + I has the same leading eigenvector, but no eigenvalue of equal magnitude and opposite sign.
    """
    x = torch.ones(edges.shape[0], dtype=torch.float64)
    for _ in range(ROUNDS):
        x = x + (edges @ x[:, None])[:, 0]
        x = x / x.norm()
    return x.clamp(min=FLOOR)


CENTRALITIES = {"degree": degree, "pagerank": pagerank, "eigenvector": eigenvector}
