"""GREET: a learned gate tells edges apart, and a low-pass and a high-pass channel are contrasted."""

from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.core.errors import InputError
from epagcl.core.permute import row_products
from epagcl.core.randomness import Stream, other_nodes, permutation, uniform
from epagcl.core.sparse import Pattern, SparseMatrix, multiply
from epagcl.data.graph import Graph
from epagcl.losses.infonce.loss import MIN_TEMPERATURE
from epagcl.losses.neighbours import neighbour_nce
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.heads import ProjectionHead
from epagcl.training.protocol import Step

CODES = 16  # numbers in a structural code; even
HOPS = 2  # products with its filter in each channel
EPSILON = 1e-4  # least noise of the gate, and 1 − EPSILON the most: its logit stays finite
BLOCK = 2**24  # numbers in a dense block of what is prepared


class Gate(nn.Module):
    """θ_uv = ½(m([g_u‖g_v]) + m([g_v‖g_u])), g = ReLU(linear([x‖code])), m linear to one number.

    That is c_u + c_v with c = ½(m₁ + m₂)·g + ½ bias, so that nothing as long as the edges is as wide as g.
    """

    def __init__(self, num_features: int, hidden: int):
        super().__init__()
        self.embed = nn.Linear(num_features + CODES, hidden)
        self.score = nn.Linear(2 * hidden, 1)

    def forward(self, graph: Graph, codes: Tensor) -> Tensor:
        """θ at each entry of the graph's pattern; at loops it means nothing."""
        from_features, from_codes = self.embed.weight.T.split([graph.num_features, CODES])
        g = (graph.x @ from_features + codes @ from_codes + self.embed.bias).relu()
        c = (g @ self.score.weight.view(2, -1).sum(0) + self.score.bias) / 2
        return graph.pattern.edge_sums(c, c)


class Channels(nn.Module):
    """The encoders of the low-pass and of the high-pass channel, and their projections; no weight is shared."""

    def __init__(self, num_features: int, dim: int, projection_layers: int):
        super().__init__()
        self.encoders = nn.ModuleList(nn.Linear(num_features, dim) for _ in range(2))
        self.projections = nn.ModuleList(
            ProjectionHead(dim, dim) if projection_layers == 2 else nn.Linear(dim, dim) for _ in range(2)
        )

    def hidden(self, x: Tensor | SparseMatrix, masks: Tensor | None = None) -> Tensor:
        """ReLU(XW + b) of both channels under each other, ``[2N, dim]``; ``masks`` ``[2, F]`` hide feature columns."""
        weights = [encoder.weight.T for encoder in self.encoders]
        if masks is not None:  # (X ∘ mask) W = X (mask ∘ W)
            weights = [mask[:, None] * weight for mask, weight in zip(masks, weights, strict=True)]
        h = x @ torch.cat(weights, 1) + torch.cat([encoder.bias for encoder in self.encoders])
        return torch.cat(h.relu().chunk(2, 1))

    def project(self, h: Tensor) -> list[Tensor]:
        """Each channel by its own projection."""
        return [projection(part) for projection, part in zip(self.projections, h.chunk(2), strict=True)]


class Network(nn.Module):
    """The gate and the channels, which are trained in turns."""

    def __init__(self, gate: Gate, channels: Channels):
        super().__init__()
        self.gate, self.channels = gate, channels


def filters(pattern: Pattern, w: Tensor, alpha: float) -> Tensor:
    """L = D^-½ (W + I) D^-½, D its row sums, and H = I − α·(off-diagonal part of the same with 1 − W).

    Both at the entries of A + I, ``[2, entries]``, as W is: what ``w`` has at loops is not read. Differentiable in it.
    """
    weight = torch.where(pattern.loop, 1.0, torch.stack([w, 1 - w]))
    r = pattern.multiply(weight, weight.new_ones(pattern.shape[1], 1)).rsqrt()  # row sums ≥ 1: the loop is there
    low, high = weight * pattern.edge_dots(r, r)
    return torch.stack([low, torch.where(pattern.loop, 1.0, -alpha * high)])


def spread(pattern: Pattern, values: Tensor, h: Tensor) -> Tensor:
    """L L h_low over H H h_high, ``[2N, dim]``; no activation after."""
    for _ in range(HOPS):
        h = pattern.multiply(values, h)
    return h


def joined(z: Tensor) -> Tensor:
    """Both channels side by side, ``[N, 2·dim]``, as unit rows."""
    return F.normalize(torch.cat(z.chunk(2), 1), dim=1)


class Prepared(NamedTuple):
    """What does not change in training."""

    codes: Tensor  # structural codes of the nodes
    positives: Tensor  # each node and its nearest in features
    entries: Tensor  # a number for each entry (i, j) of the pattern: i·N + j


@method_settings
class GREET(Method):
    r"""Edge heterophily discriminating: similar neighbours are averaged, dissimilar ones subtracted, by a learned gate.

    .. math::
        w_{uv} = \sigma\left(\theta_{uv} + \log \tfrac{\varepsilon}{1-\varepsilon}\right), \quad
        z_{low} = L L\, \mathrm{ReLU}(X W_1 + b_1), \quad z_{high} = H H\, \mathrm{ReLU}(X W_2 + b_2)

    L normalises W + I, and H = I − α times the off-diagonal of the same with 1 − W. An epoch has ``rounds`` steps of
    the encoders, the gate frozen, on L and H with entries dropped and columns hidden; a node's positives P_i are itself
    and its ``k`` nearest in features:

    .. math::
        \ell_i(a, b) = \log \sum_{k \notin P_i} e^{s(a_i, b_k)/\tau} - \frac{1}{|P_i|} \sum_{j \in P_i} s(a_i, b_j)/\tau

    Then one step of the gate, on intact features, c the cosine of [z_low‖z_high] at an edge, c' at a random pair:

    .. math::
        \mathcal{L}_{gate} = \tfrac{1}{2E} \sum_e
        (w_e - \tfrac{1}{2})_+ (\delta_{hom} - c_e + c'_e)_+ + (\tfrac{1}{2} - w_e)_+ (\delta_{het} - c'_e + c_e)_+

    Noise ε and dropout fall on the two directions of an edge apart, as in the code, so that L and H are not symmetric:
    with a shared fate each of two hops leads back where it came from, and Cora loses ten points.
    The embedding is made without noise, ε = ½ and w = σ(θ); the code draws it there too.
    The last epoch's weights are taken; the code takes those of the best accuracy on validation labels.
    """

    name = "greet"
    title = "GREET"
    paper = (
        "Liu et al., Beyond Smoothing: Unsupervised Graph Representation Learning with Edge Heterophily "
        "Discriminating, AAAI 2023"
    )
    cost_note = (
        "time N² d, or N B d with batch_size B, and once N² F and N E (code_probes: without N E); memory N (d + k) + E"
    )

    dim: int = setting(128, "width of each channel; the embedding has both")
    gate_hidden: int = setting(128, "hidden width of the gate")
    projection_layers: int = setting(1, "linear layers of each projection: 1, or 2 with a ReLU between")
    alpha: float = setting(0.5, "α, share of dissimilar neighbours that is subtracted")
    k: int = setting(20, "nearest neighbours in features that are positives; 0: the node alone")
    p_mask_1: float = setting(0.1, "share of feature columns hidden from the low-pass channel")
    p_mask_2: float = setting(0.5, "share of feature columns hidden from the high-pass channel")
    p_drop_1: float = setting(0.5, "probability that an entry of L is dropped, the others scaled up")
    p_drop_2: float = setting(0.1, "probability that an entry of H is dropped, the others scaled up")
    temperature: float = setting(0.2, "τ of the loss, at least 0.03")
    batch_size: int = setting(0, "positives and negatives inside random batches of this many nodes; 0: all nodes")
    rounds: int = setting(2, "steps of the encoders for each step of the gate")
    gate_lr: float = setting(1e-3, "learning rate of the gate")
    margin_hom: float = setting(0.5, "δ_hom, by which similar edges are to be closer than random pairs")
    margin_het: float = setting(0.5, "δ_het, by which dissimilar edges are to be farther than random pairs")
    code_probes: int = setting(0, "random probes that estimate the structural codes; 0: exact codes, in time N E")
    epochs: int = setting(400, "training epochs; 0 leaves the network untrained")
    weight_decay: float = setting(0.0, "weight decay of Adam")

    def validate(self) -> None:
        """Shares, widths, temperature and margins."""
        super().validate()
        self.check_probabilities("p_mask_1", "p_mask_2", "p_drop_1", "p_drop_2")
        if max(self.p_drop_1, self.p_drop_2) == 1:
            raise InputError(f"p_drop_1={self.p_drop_1}, p_drop_2={self.p_drop_2}: must be below 1")
        self.check_at_least(0, "alpha", "k", "batch_size", "margin_hom", "margin_het", "code_probes")
        self.check_at_least(1, "dim", "gate_hidden", "rounds")
        self.check_at_least(MIN_TEMPERATURE, "temperature")
        if self.projection_layers not in (1, 2) or self.gate_lr <= 0:
            raise InputError(
                f"projection_layers={self.projection_layers}, gate_lr={self.gate_lr}: "
                "there are 1 or 2 layers, and the rate must be positive"
            )

    def build(self, num_features: int) -> Network:
        """The gate, two encoders F → dim, two projections; all with torch's initial weights, as in the code."""
        gate = Gate(num_features, self.gate_hidden)
        return Network(gate, Channels(num_features, self.dim, self.projection_layers))

    def prepare(self, graph: Graph) -> Prepared:
        """Structural codes, neighbours in feature space, and the numbers of the entries."""
        n, pattern = graph.num_nodes, graph.pattern
        itself = torch.arange(n, device=graph.device)[:, None]
        k = min(self.k, n - 2)  # at least one negative is left
        positives = torch.cat([itself, nearest(graph.x, k)], 1) if k > 0 else itself
        return Prepared(self.codes(graph), positives, pattern.row * n + pattern.col)

    def codes(self, graph: Graph) -> Tensor:
        """Structural codes, kept for as long as the graph is."""
        known = _codes.setdefault(graph, {})
        key = self.code_probes, self.seed
        if key not in known:
            known[key] = structural_codes(graph, self.code_probes, self.seed)
        return known[key]

    def parameters(self, network: Network) -> list[dict[str, Any]]:
        """Channels, then gate."""
        channels, gate = list(network.channels.parameters()), list(network.gate.parameters())
        return [{"params": channels}, {"params": gate, "lr": self.gate_lr}]

    def steps(self) -> list[Step]:
        """The channels ``rounds`` times, then the gate."""
        channels = [Step(partial(self.loss, turn=turn), group=0) for turn in range(self.rounds)]
        return [*channels, Step(self.gate_loss, group=1)]

    def loss(self, network: Network, graph: Graph, prepared: Prepared, epoch: int | Tensor, turn: int = 0) -> Tensor:
        """Of the channels in one of an epoch's rounds: the low-pass view against the high-pass view."""
        pattern, num_features, device = graph.pattern, graph.num_features, graph.device
        with torch.no_grad():  # the gate stands still
            w = self.noisy_weights(network.gate, graph, prepared, epoch, turn)
            values = filters(pattern, w, self.alpha)
            for view, p in enumerate((self.p_drop_1, self.p_drop_2)):
                kept = uniform(prepared.entries, self.seed, Stream.DROPOUT, epoch, 2 * turn + view) >= p
                values[view] *= kept / (1 - p)
        masks = torch.ones(2, num_features, device=device)
        for view, p in enumerate((self.p_mask_1, self.p_mask_2)):
            columns = permutation(num_features, self.seed, Stream.FEATURES, epoch, 2 * turn + view, device=device)
            masks[view].index_fill_(0, columns[: int(num_features * p)], 0.0)
        a, b = network.channels.project(spread(pattern, values, network.channels.hidden(graph.x, masks)))
        order = None
        if self.batch_size:
            order = permutation(graph.num_nodes, self.seed, Stream.BATCHES, epoch, turn, device=device)
        return neighbour_nce(a, b, prepared.positives, self.temperature, self.batch_size, order)

    def gate_loss(self, network: Network, graph: Graph, prepared: Prepared, epoch: int | Tensor) -> Tensor:
        """Of the gate, which the gradient reaches through w and through the embedding that w makes."""
        n, pattern = graph.num_nodes, graph.pattern
        w = self.noisy_weights(network.gate, graph, prepared, epoch, self.rounds)
        with torch.no_grad():  # the encoders stand still
            h = network.channels.hidden(graph.x)
        z = joined(spread(pattern, filters(pattern, w, self.alpha), h))
        edge = pattern.edge_dots(z, z)
        permutations = -(-edge.numel() // n)
        others = other_nodes(n, permutations, self.seed, Stream.NEGATIVES, epoch, device=graph.device)
        random = row_products(z, z, others).flatten()[: edge.numel()]
        similar = (w - 0.5).relu() * (self.margin_hom - edge + random).relu()
        dissimilar = (0.5 - w).relu() * (self.margin_het - random + edge).relu()
        # Entries that are loops are no edges; the others are each edge in both directions.
        total = torch.where(pattern.loop, 0.0, similar + dissimilar).sum()
        return total / (2 * (edge.numel() - n))

    def noisy_weights(self, gate: Gate, graph: Graph, prepared: Prepared, epoch: int | Tensor, turn: int) -> Tensor:
        """w at each entry of the pattern, with this turn's noise ε of each entry."""
        noise = uniform(prepared.entries, self.seed, Stream.GATE, epoch, turn)
        return (gate(graph, prepared.codes) + (EPSILON + (1 - 2 * EPSILON) * noise).logit()).sigmoid()

    def represent(self, network: Network, graph: Graph) -> Tensor:
        """[z_low‖z_high] as unit rows, from the gate without noise."""
        w = network.gate(graph, self.codes(graph)).sigmoid()
        return joined(spread(graph.pattern, filters(graph.pattern, w, self.alpha), network.channels.hidden(graph.x)))


_codes: WeakKeyDictionary[Graph, dict[tuple[int, int], Tensor]] = WeakKeyDictionary()


def structural_codes(graph: Graph, probes: int = 0, seed: int = 0) -> Tensor:
    """(R^k)_ii for k = 1..16, R = A D⁻¹: the chance that a walk from i is back after k steps, ``[N, 16]``.

    S = D^-½ A D^-½ has the same. With V Vᵀ = I, diag(S^{2a}) are the row sums of (S^a V)² and diag(S^{2a+1}) those of
    (S^a V)∘(S^{a+1} V): half the powers suffice, some columns at a time, in memory O(N). V is the identity, or
    ``probes`` columns of random signs, with V Vᵀ = I in the mean.
    """
    n, pattern = graph.num_nodes, graph.pattern
    r = (pattern.rowptr.diff() - 1).clamp(min=1).to(torch.float32).rsqrt()  # without the loop; isolated nodes have none
    walk = pattern.matrix(torch.where(pattern.loop, 0.0, r[pattern.row] * r[pattern.col.long()]))
    codes = torch.zeros(n, CODES, device=graph.device)
    nodes = torch.arange(n, device=graph.device)[:, None]
    for columns in torch.arange(probes or n, device=graph.device).split(max(1, BLOCK // n)):
        if probes:
            v = ((uniform(nodes * probes + columns, seed, Stream.GATE) < 0.5) * 2.0 - 1) / probes**0.5
        else:
            v = (nodes == columns).float()
        for power in range(0, CODES, 2):
            after = multiply(walk, v)
            codes[:, power] += (v * after).sum(1)
            codes[:, power + 1] += after.square().sum(1)
            v = after
    return codes


def nearest(x: Tensor | SparseMatrix, k: int) -> Tensor:
    """The k other nodes with features of the highest cosine to each node's, ``[N, k]``; memory O(N(k + 1)).

    A node without features is at cosine 0 from all: its neighbours are arbitrary, as in the code.
    """
    n, num_features = x.shape
    if isinstance(x, Tensor):
        unit = F.normalize(x, dim=1)
    else:
        square = SparseMatrix(x.rowptr, x.col, x.value.square(), x.shape) @ x.value.new_ones(num_features, 1)
        norm = square[:, 0].sqrt().clamp(min=1e-12)
        unit = SparseMatrix(x.rowptr, x.col, x.value / norm[x.row], x.shape)
    found = []
    for nodes in torch.arange(n, device=x.device).split(max(1, BLOCK // max(n, num_features))):
        similarity = unit @ _dense_rows(unit, int(nodes[0]), int(nodes[-1]) + 1).T
        similarity[nodes, nodes - nodes[0]] = -torch.inf
        found.append(similarity.topk(k, dim=0).indices.T)
    return torch.cat(found)


def _dense_rows(x: Tensor | SparseMatrix, start: int, stop: int) -> Tensor:
    if isinstance(x, Tensor):
        return x[start:stop]
    entries = slice(*x.rowptr[[start, stop]].tolist())
    rows = x.value.new_zeros(stop - start, x.shape[1])
    rows[x.pattern.row[entries] - start, x.col[entries].long()] = x.value[entries]
    return rows
