"""EPAGCL with edges added blindly: random absent pairs, drawn anew for every view of every epoch."""

from collections.abc import Iterable

import torch
from torch import Tensor

from epagcl.core.adjacency import gcn_adjacency, self_looped_entries
from epagcl.core.randomness import Stream, uniform64
from epagcl.core.sparse import SparseMatrix, StackedMatrix
from epagcl.data.graph import Graph
from epagcl.methods.contrast import Augmentation
from epagcl.methods.epagcl import EPAGCL
from epagcl.methods.settings import method_settings, setting
from epagcl.views.probabilities import edge_weights
from epagcl.views.sampling import ViewSampler


class BlindViews:
    """Views that keep pairs as their samplers do, and get ``counts`` random pairs each that are not in the graph."""

    def __init__(self, samplers: Iterable[ViewSampler], counts: Iterable[int], present: Tensor):
        self.samplers, self.counts, self.present = tuple(samplers), tuple(counts), present

    def pairs(self, epoch: int | Tensor, view: int) -> Tensor:
        """i·N + j of a view's pairs: draws that hit an edge, a node itself or an earlier draw are void."""
        sampler, n = self.samplers[view], self.samplers[view].num_nodes
        draw = torch.arange(self.counts[view], device=self.present.device)
        i, j = (
            (uniform64(draw, sampler.seed, Stream.CANDIDATES, epoch, 2 * view + end) * n).long() for end in range(2)
        )
        drawn = (torch.minimum(i, j) * n + torch.maximum(i, j))[i != j]
        drawn = drawn[~torch.isin(drawn, self.present)]
        return torch.unique(torch.cat([sampler.counter[sampler.kept(epoch)], drawn]))

    def adjacency(self, epoch: int | Tensor) -> StackedMatrix:
        """Â of each view of this epoch."""
        return StackedMatrix([self._adjacency(epoch, view) for view in range(len(self.samplers))])

    def _adjacency(self, epoch: int | Tensor, view: int) -> SparseMatrix:
        n = self.samplers[view].num_nodes
        row, col, _ = self_looped_entries(self.pairs(epoch, view), n)
        return gcn_adjacency(row, col, n)


@method_settings
class RandomAdding(EPAGCL):
    """EPAGCL without guidance in adding: as many edges as it would add, from anywhere, others every time.

    ``add="uniform"`` of EPAGCL draws a pool of random pairs once, as Algorithm 1 has its candidates, and the same ones
    return in every epoch and in both views, which teaches the encoder to see them. Here none returns but by chance. It
    serves the paper's ablation, and has no name.
    """

    capture: str = setting("off", "the views' sizes change from epoch to epoch", ("off",))

    def prepare(self, graph: Graph) -> Augmentation:
        """Dropping as in EPAGCL; p_add of as many draws as Algorithm 1 has candidates."""
        weights = edge_weights(graph.pairs, graph.num_nodes)
        p_adds = (self.p_add if self.add_to == "both" else 0.0, self.p_add)
        samplers = [
            ViewSampler(
                weights.probabilities(p_drop, 0.0, drop=self.drop).to(graph.device),
                graph.num_nodes,
                seed=self.seed,
                view=view,
            )
            for view, p_drop in enumerate((self.p_drop_1, self.p_drop_2))
        ]
        counts = (round(p_add * weights.candidates.shape[1]) for p_add in p_adds)
        present = graph.pairs[0] * graph.num_nodes + graph.pairs[1]
        return Augmentation(BlindViews(samplers, counts, present), (self.p_mask_1, self.p_mask_2))
