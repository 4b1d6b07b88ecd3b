"""GREET: an edge discriminator, the gate, separates similar from dissimilar edges; two graph filters are contrasted."""

from functools import partial
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from epagcl.core.errors import InputError
from epagcl.core.log import log
from epagcl.core.norms import unit_rows
from epagcl.core.pattern import Pattern
from epagcl.core.permute import row_products
from epagcl.core.randomness import Stream, other_nodes, permutation, uniform
from epagcl.core.sparse import SparseMatrix, multiply
from epagcl.data.graph import Graph
from epagcl.losses.infonce.loss import MIN_TEMPERATURE
from epagcl.losses.neighbours import neighbour_nce
from epagcl.methods.base import Method
from epagcl.methods.settings import method_settings, setting
from epagcl.nn.heads import ProjectionHead
from epagcl.nn.layers import transform
from epagcl.training.protocol import Step

CODES = 16  # length of a structural code; even
HOPS = 2  # number of products with the filter in each channel
EPSILON = 1e-4  # the noise of the gate lies between EPSILON and 1 − EPSILON, so that its logit is finite
BLOCK = 2**24  # number of values in a dense block during preparation


class Gate(nn.Module):
    """θ_uv = ½(m([g_u‖g_v]) + m([g_v‖g_u])) with g = ReLU(linear([x‖code])) and m a linear map to one number.

    It is computed as c_u + c_v with c = ½(m₁ + m₂)·g + ½ bias, so that no tensor has the shape ``[edges, hidden]``.
    """

    def __init__(self, num_features: int, hidden: int):
        super().__init__()
        self.embed = nn.Linear(num_features + CODES, hidden)
        self.score = nn.Linear(2 * hidden, 1)

    def forward(self, graph: Graph, codes: Tensor) -> Tensor:
        """Return θ at each entry of the graph's pattern; its values at self-loops are not used."""
        from_features, from_codes = self.embed.weight.T.split([graph.num_features, CODES])
        g = (transform(graph.aligned_x, from_features) + codes @ from_codes + self.embed.bias).relu()
        c = (g @ self.score.weight.view(2, -1).sum(0) + self.score.bias) / 2
        return graph.pattern.edge_sums(c, c)


class Channels(nn.Module):
    """The encoders and projections of the low-pass and the high-pass channel; they share no weights."""

    def __init__(self, num_features: int, dim: int, projection_layers: int):
        super().__init__()
        self.encoders = nn.ModuleList(nn.Linear(num_features, dim) for _ in range(2))
        self.projections = nn.ModuleList(
            ProjectionHead(dim, dim) if projection_layers == 2 else nn.Linear(dim, dim) for _ in range(2)
        )

    def hidden(self, x: Tensor | SparseMatrix, masks: Tensor | None = None) -> Tensor:
        """Return ReLU(XW + b) of both channels as stacked rows, ``[2N, dim]``; ``masks`` ``[2, F]`` hide columns."""
        encoders = [cast("nn.Linear", encoder) for encoder in self.encoders]
        weights = [encoder.weight.T for encoder in encoders]
        if masks is not None:  # (X ∘ mask) W = X (mask ∘ W)
            weights = [mask[:, None] * weight for mask, weight in zip(masks, weights, strict=True)]
        h = transform(x, torch.cat(weights, 1)) + torch.cat([encoder.bias for encoder in encoders])
        return torch.cat(h.relu().chunk(2, 1))

    def project(self, h: Tensor) -> list[Tensor]:
        """Return the projection of each channel."""
        return [projection(part) for projection, part in zip(self.projections, h.chunk(2), strict=True)]


class Network(nn.Module):
    """The gate and the channels, which are trained alternately."""

    def __init__(self, gate: Gate, channels: Channels):
        super().__init__()
        self.gate, self.channels = gate, channels


def filters(pattern: Pattern, w: Tensor, alpha: float) -> Tensor:
    """Return the low-pass filter L = D^-½ (W + I) D^-½, where D has its row sums, and the high-pass filter H.

    H is I − α times the off-diagonal part of the same expression with 1 − W in place of W. Both filters are given at
    the entries of A + I, ``[2, entries]``, and are differentiable in ``w``. The values of ``w`` at self-loops are not
    used.
    """
    weight = torch.where(pattern.loop, 1.0, torch.stack([w, 1 - w]))
    r = pattern.multiply(weight, weight.new_ones(pattern.shape[1], 1)).rsqrt()  # row sums are at least 1, the self-loop
    low, high = weight * pattern.edge_dots(r, r)
    return torch.stack([low, torch.where(pattern.loop, 1.0, -alpha * high)])


def propagate(pattern: Pattern, values: Tensor, h: Tensor) -> Tensor:
    """Return L L h_low stacked on H H h_high, ``[2N, dim]``, without activation."""
    for _ in range(HOPS):
        h = pattern.multiply(values, h)
    return h


def join_channels(z: Tensor) -> Tensor:
    """Concatenate both channels and normalise the rows, ``[N, 2·dim]``."""
    return unit_rows(torch.cat(z.chunk(2), 1))


class Prepared(NamedTuple):
    """Values that are computed once before training.

    Attributes:
        codes: structural codes of the nodes, ``[N, 16]``.
        positives: each node and its nearest neighbours in feature space, ``[N, 1 + k]``.
        entries: i·N + j for each entry (i, j) of the pattern.
    """

    codes: Tensor
    positives: Tensor
    entries: Tensor


@method_settings
class GREET(Method):
    r"""Edge heterophily discriminating: a learned gate averages similar neighbours and subtracts dissimilar ones.

    .. math::
        w_{uv} = \sigma\left(\theta_{uv} + \log \tfrac{\varepsilon}{1-\varepsilon}\right), \quad
        z_{low} = L L\, \mathrm{ReLU}(X W_1 + b_1), \quad z_{high} = H H\, \mathrm{ReLU}(X W_2 + b_2)

    L is the normalised W + I, and H = I − α times the off-diagonal part of the normalised 1 − W + I. An epoch has
    ``rounds`` steps of the encoders with a frozen gate, on L and H with entries dropped and feature columns hidden. The
    positives P_i of a node are itself and its ``k`` nearest neighbours in feature space:

    .. math::
        \ell_i(a, b) = \log \sum_{k \notin P_i} e^{s(a_i, b_k)/\tau} - \frac{1}{|P_i|} \sum_{j \in P_i} s(a_i, b_j)/\tau

    One step of the gate follows, on unmodified features, with c the cosine of [z_low‖z_high] at an edge and c' at a
    random pair:

    .. math::
        \mathcal{L}_{gate} = \tfrac{1}{2E} \sum_e
        (w_e - \tfrac{1}{2})_+ (\delta_{hom} - c_e + c'_e)_+ + (\tfrac{1}{2} - w_e)_+ (\delta_{het} - c'_e + c_e)_+

    From `"Beyond Smoothing: Unsupervised Graph Representation Learning with Edge Heterophily Discriminating"
    <https://arxiv.org/abs/2211.14065>`_. As in the authors' code, noise ε and dropout are sampled independently for the
    two directions of an edge, so L and H are not symmetric. If both directions shared them, two hops would often return
    to the start node, and the accuracy on Cora would be nine points lower. The embedding uses no noise, that is,
    ε = ½ and w = σ(θ); the code samples noise there as well. The weights of the last epoch are used; the code uses the
    weights with the best validation accuracy.

    Examples:
        >>> import epagcl
        >>> data = epagcl.data.block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
        >>> GREET(epochs=2, dim=4, gate_hidden=4, k=3, device="cpu").fit_embed(data).shape
        torch.Size([30, 8])
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

    dim: int = setting(128, "width of each channel; the embedding is twice as wide")
    gate_hidden: int = setting(128, "hidden width of the gate")
    projection_layers: int = setting(1, "linear layers of each projection: 1, or 2 with a ReLU between them")
    alpha: float = setting(0.5, "α, weight of the subtracted dissimilar neighbours")
    k: int = setting(20, "number of nearest neighbours in feature space used as positives; 0: only the node itself")
    p_mask_1: float = setting(0.1, "share of feature columns hidden from the low-pass channel")
    p_mask_2: float = setting(0.5, "share of feature columns hidden from the high-pass channel")
    p_drop_1: float = setting(0.5, "probability that an entry of L is dropped; the others are scaled up")
    p_drop_2: float = setting(0.1, "probability that an entry of H is dropped; the others are scaled up")
    temperature: float = setting(0.2, "temperature τ of the loss, at least 0.03")
    batch_size: int = setting(0, "positives and negatives only within random batches of this many nodes; 0: all nodes")
    rounds: int = setting(2, "steps of the encoders for each step of the gate")
    gate_lr: float = setting(1e-3, "learning rate of the gate")
    margin_hom: float = setting(0.5, "δ_hom, margin by which similar edges should be closer than random pairs")
    margin_het: float = setting(0.5, "δ_het, margin by which dissimilar edges should be farther than random pairs")
    code_probes: int = setting(0, "number of random probes to estimate structural codes; 0: exact codes, in time N E")
    epochs: int = setting(400, "training epochs; 0 leaves the network untrained")
    weight_decay: float = setting(0.0, "weight decay of Adam")

    def validate(self) -> None:
        """Raise unless every setting is valid."""
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
                "projection_layers must be 1 or 2, gate_lr must be positive"
            )

    def build(self, num_features: int) -> Network:
        """Return the gate, two encoders F → dim and two projections, with torch's initial weights as in the code."""
        gate = Gate(num_features, self.gate_hidden)
        return Network(gate, Channels(num_features, self.dim, self.projection_layers))

    def prepare(self, graph: Graph) -> Prepared:
        """Return structural codes, neighbours in feature space and the numbers of the entries."""
        if graph.weight is not None:
            log.warning("GREET does not use edge weights: its gate weights the edges")
        n, pattern = graph.num_nodes, graph.pattern
        itself = torch.arange(n, device=graph.device)[:, None]
        k = min(self.k, n - 2)  # at least one negative is left
        positives = torch.cat([itself, nearest(graph.x, k)], 1) if k > 0 else itself
        return Prepared(self.codes(graph), positives, pattern.row * n + pattern.col)

    def codes(self, graph: Graph) -> Tensor:
        """Return the structural codes, which are cached for the lifetime of the graph."""
        cache = _codes.setdefault(graph, {})
        key = self.code_probes, self.seed
        if key not in cache:
            cache[key] = structural_codes(graph, self.code_probes, self.seed)
        return cache[key]

    def parameters(self, network: Network) -> list[dict[str, Any]]:
        """Return two groups: the channels, then the gate with its own learning rate."""
        channels, gate = list(network.channels.parameters()), list(network.gate.parameters())
        return [{"params": channels}, {"params": gate, "lr": self.gate_lr}]

    def steps(self) -> list[Step]:
        """Return ``rounds`` steps of the channels, then one step of the gate."""
        channels = [Step(partial(self.loss, turn=turn), group=0) for turn in range(self.rounds)]
        return [*channels, Step(self.gate_loss, group=1)]

    def loss(self, network: Network, graph: Graph, prepared: Prepared, epoch: int | Tensor, turn: int = 0) -> Tensor:
        """Return the loss of the channels in one round: the low-pass view contrasted with the high-pass view."""
        pattern, num_features, device = graph.pattern, graph.num_features, graph.device
        with torch.no_grad():  # the gate is frozen
            w = self.noisy_weights(network.gate, graph, prepared, epoch, turn)
            values = filters(pattern, w, self.alpha)
            for view, p in enumerate((self.p_drop_1, self.p_drop_2)):
                keep = uniform(prepared.entries, self.seed, Stream.DROPOUT, epoch, 2 * turn + view) >= p
                values[view] *= keep / (1 - p)
        masks = torch.ones(2, num_features, device=device)
        for view, p in enumerate((self.p_mask_1, self.p_mask_2)):
            columns = permutation(num_features, self.seed, Stream.FEATURES, epoch, 2 * turn + view, device=device)
            masks[view].index_fill_(0, columns[: int(num_features * p)], 0.0)
        a, b = network.channels.project(propagate(pattern, values, network.channels.hidden(graph.aligned_x, masks)))
        order = None
        if self.batch_size:
            order = permutation(graph.num_nodes, self.seed, Stream.BATCHES, epoch, turn, device=device)
        return neighbour_nce(a, b, prepared.positives, self.temperature, self.batch_size, order)

    def gate_loss(self, network: Network, graph: Graph, prepared: Prepared, epoch: int | Tensor) -> Tensor:
        """Return the loss of the gate. Its gradient flows through w and through the embedding computed with w."""
        n, pattern = graph.num_nodes, graph.pattern
        w = self.noisy_weights(network.gate, graph, prepared, epoch, self.rounds)
        with torch.no_grad():  # the encoders are frozen
            h = network.channels.hidden(graph.aligned_x)
        z = join_channels(propagate(pattern, filters(pattern, w, self.alpha), h))
        edge = pattern.edge_dots(z, z)
        permutations = -(-edge.numel() // n)
        others = other_nodes(n, permutations, self.seed, Stream.NEGATIVES, epoch, device=graph.device)
        random = row_products(z, z, others).flatten()[: edge.numel()]
        similar = (w - 0.5).relu() * (self.margin_hom - edge + random).relu()
        dissimilar = (0.5 - w).relu() * (self.margin_het - random + edge).relu()
        # Self-loops are not edges; every edge has two entries, one per direction.
        total = torch.where(pattern.loop, 0.0, similar + dissimilar).sum()
        return total / (2 * (edge.numel() - n))

    def noisy_weights(self, gate: Gate, graph: Graph, prepared: Prepared, epoch: int | Tensor, turn: int) -> Tensor:
        """Return w at each entry of the pattern, with noise ε for each entry and turn."""
        noise = uniform(prepared.entries, self.seed, Stream.GATE, epoch, turn)
        return (gate(graph, prepared.codes) + (EPSILON + (1 - 2 * EPSILON) * noise).logit()).sigmoid()

    def represent(self, network: Network, graph: Graph) -> Tensor:
        """Return [z_low‖z_high] as unit rows, with a gate without noise."""
        w = network.gate(graph, self.codes(graph)).sigmoid()
        h = network.channels.hidden(graph.aligned_x)
        return join_channels(propagate(graph.pattern, filters(graph.pattern, w, self.alpha), h))


#: Structural codes of each graph by (code_probes, seed).
_codes: WeakKeyDictionary[Graph, dict[tuple[int, int], Tensor]] = WeakKeyDictionary()


def structural_codes(graph: Graph, probes: int = 0, seed: int = 0) -> Tensor:
    """Return (R^k)_ii for k = 1..16, R = A D⁻¹: the probability that a walk from i is at i after k steps, ``[N, 16]``.

    S = D^-½ A D^-½ has the same diagonals. With V Vᵀ = I, diag(S^{2a}) are the row sums of (S^a V)², and diag(S^{2a+1})
    are the row sums of (S^a V)∘(S^{a+1} V). Half of the powers therefore suffice. They are computed for a few columns
    at a time, in memory O(N). V is the identity, or ``probes`` columns of random signs, for which V Vᵀ = I in
    expectation.
    """
    n, pattern = graph.num_nodes, graph.pattern
    degree = pattern.rowptr.diff() - 1  # without the self-loop
    r = degree.clamp(min=1).to(torch.float32).rsqrt()
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
    """Return the k other nodes with the highest feature cosine to each node, ``[N, k]``, in memory O(N(k + 1)).

    A node without features has cosine 0 with all nodes; its neighbours are arbitrary, as in the authors' code.
    """
    n, num_features = x.shape
    unit: Tensor | SparseMatrix
    if isinstance(x, Tensor):
        unit = F.normalize(x, dim=1)
    else:
        square = SparseMatrix(x.rowptr, x.col, x.value.square(), x.shape) @ x.value.new_ones(num_features, 1)
        norm = square[:, 0].sqrt().clamp(min=1e-12)
        unit = SparseMatrix(x.rowptr, x.col, x.value / norm[x.row], x.shape)
    neighbours = []
    for nodes in torch.arange(n, device=x.device).split(max(1, BLOCK // max(n, num_features))):
        similarity = unit @ _dense_rows(unit, int(nodes[0]), int(nodes[-1]) + 1).T
        similarity[nodes, nodes - nodes[0]] = -torch.inf
        neighbours.append(similarity.topk(k, dim=0).indices.T)
    return torch.cat(neighbours)


def _dense_rows(x: Tensor | SparseMatrix, start: int, stop: int) -> Tensor:
    """Return rows ``start`` to ``stop - 1`` of x as a dense tensor."""
    if isinstance(x, Tensor):
        return x[start:stop]
    entries = slice(*x.rowptr[[start, stop]].tolist())
    rows = x.value.new_zeros(stop - start, x.shape[1])
    rows[x.pattern.row[entries] - start, x.col[entries].long()] = x.value[entries]
    return rows
