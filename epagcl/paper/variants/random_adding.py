"""EPAGCL with edges added at random: new absent pairs are drawn for every view of every epoch."""

import torch
from torch import Tensor

from epagcl.core.adjacency import gcn_adjacency, self_looped_entries
from epagcl.core.randomness import Stream, uniform64
from epagcl.core.sparse import SparseMatrix, StackedMatrix
from epagcl.data.graph import Graph
from epagcl.methods.contrast import Augmentation
from epagcl.methods.epagcl import EPAGCL
from epagcl.methods.settings import method_settings, setting
from epagcl.views.probabilities import EdgeProbabilities, edge_weights
from epagcl.views.sampling import Views, ViewSampler


class RandomAddingSampler(ViewSampler):
    """Sampler that drops edges by their probabilities and adds pairs drawn uniformly from all absent pairs.

    :attr:`counter` and :attr:`keep` describe the edges only: any absent pair can be added, with the same probability.

    Args:
        probabilities: drop probabilities of the edges, without candidates of positive add probability.
        num_nodes: number of nodes N.
        seed: random seed.
        view: number of the view.
        draws: number of pairs drawn per epoch. Draws of an edge, of a self-loop or of an earlier pair add nothing.
    """

    def __init__(self, probabilities: EdgeProbabilities, num_nodes: int, *, seed: int, view: int, draws: int):
        super().__init__(probabilities, num_nodes, seed=seed, view=view)
        self.draws = draws

    def pairs(self, epoch: int | Tensor) -> Tensor:
        """Return the pairs of this epoch's view, ``[2, K]``, sorted."""
        keys = self._keys(epoch)
        return torch.stack([keys // self.num_nodes, keys % self.num_nodes])

    def adjacency(self, epoch: int | Tensor) -> SparseMatrix:
        """Return Â of this epoch's view."""
        row, col, _ = self_looped_entries(self._keys(epoch), self.num_nodes)
        return gcn_adjacency(row, col, self.num_nodes)

    def _keys(self, epoch: int | Tensor) -> Tensor:
        """Return i·N + j for each pair of this epoch's view, sorted."""
        n = self.num_nodes
        draw = torch.arange(self.draws, device=self.counter.device)
        i, j = (
            (uniform64(draw, self.seed, Stream.CANDIDATES, epoch, 2 * self.view + end) * n).long() for end in range(2)
        )
        drawn = (torch.minimum(i, j) * n + torch.maximum(i, j))[i != j]
        drawn = drawn[~torch.isin(drawn, self.counter)]
        return torch.unique(torch.cat([self.counter[self.kept(epoch)], drawn]))


class StackedViews(Views):
    """Views whose edges follow no fixed pattern: the matrices of the samplers are stacked on every device."""

    def adjacency(self, epoch: int | Tensor) -> StackedMatrix:
        """Return Â of every view of this epoch."""
        return StackedMatrix([sampler.adjacency(epoch) for sampler in self.samplers])


@method_settings
class RandomAdding(EPAGCL):
    """EPAGCL without guidance in adding: the same number of added edges, drawn from all absent pairs in every epoch.

    ``EPAGCL(add="uniform")`` draws a fixed pool of random candidates once. The same candidates recur in every epoch and
    in both views, and the encoder learns to recognise them. Here a pair recurs only by chance. The class serves the
    paper's ablation and is not registered as a method.
    """

    runs_on_ranks = False

    capture: str = setting("off", "the views' sizes change from epoch to epoch", ("off",))

    def prepare(self, graph: Graph) -> Augmentation:
        """Return views that drop as EPAGCL does and draw ``p_add`` times the number of candidates of Algorithm 1."""
        weights = edge_weights(graph.pairs, graph.num_nodes)
        p_adds = (self.p_add if self.add_to == "both" else 0.0, self.p_add)
        views = StackedViews(
            RandomAddingSampler(
                weights.probabilities(p_drop, 0.0, drop=self.drop).to(graph.device),
                graph.num_nodes,
                seed=self.seed,
                view=view,
                draws=round(p_add * weights.candidates.shape[1]),
            )
            for view, (p_drop, p_add) in enumerate(zip((self.p_drop_1, self.p_drop_2), p_adds, strict=True))
        )
        return Augmentation(views, (self.p_mask_1, self.p_mask_2))
