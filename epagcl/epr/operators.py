"""The error passing rate of a propagation operator, with a node's own message included."""

from collections.abc import Callable

import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix, multiply
from epagcl.epr.rate import Rates

#: A non-negative N×N matrix M as a function Y → MY, such as those of :mod:`epagcl.diffusion`. M is never formed.
Operator = Callable[[Tensor], Tensor]

# Maximum number of entries of the messages from one block of classes.
_MAX_ENTRIES = 2**24


def operator_epr(operator: Operator, y: Tensor, per: str = "node") -> float:
    r"""Return the share of an operator's messages that come from another class, a node's own message included.

    Node i receives messages with the weights M_ij ≥ 0, where j = i is the node's own message, which is never wrong:

    - ``per="node"``: the mean of Σ_{j: y_j ≠ y_i} M_ij / Σ_j M_ij over the labelled nodes i that receive a message.
    - ``per="edge"``: the ratio of the sums of both over the same nodes.

    :func:`error_passing_rate` differs: it counts messages along edges only. The identity (raw features) has an EPR of
    0. The products with the indicators of the C classes are exact and take C columns of M.

    Args:
        operator: M as a function Y → MY, such as ``epagcl.diffusion.ppr(graph, alpha=0.15)``.
        y: class of each node, ``[N]``; −1 for none. Messages from nodes without a class are not counted.
        per: ``"node"`` or ``"edge"``.

    Returns:
        A number between 0 and 1, or NaN if there are no messages between labelled nodes.

    Examples:
        >>> import torch
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.ones(3, 1), pairs=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)  # a path
        >>> operator_epr(lambda h: graph.adjacency @ h, torch.tensor([0, 0, 0]))
        0.0
        >>> round(operator_epr(lambda h: graph.adjacency @ h, torch.tensor([0, 0, 1])), 4)
        0.2682
    """
    if per not in ("node", "edge"):
        raise InputError(f"per={per!r}; pass 'node' or 'edge'")
    rates = operator_rates(operator, y)
    return rates.per_node if per == "node" else rates.per_edge


def operator_rates(operator: Operator, y: Tensor) -> Rates:
    """Return :func:`operator_epr` per node and per edge."""
    if y.dim() != 1 or y.numel() == 0:
        raise InputError(f"y has shape {tuple(y.shape)}; pass one class number per node, [N]")
    if not (y >= 0).any():
        raise InputError("y: no node has a class; pass at least one class number of 0 or more")
    wrong, right = (torch.zeros(y.numel(), dtype=torch.float64) for _ in range(2))
    for classes in y[y >= 0].unique().split(max(1, _MAX_ENTRIES // y.numel())):
        own = y[:, None] == classes
        # An iteration that is accurate to a tolerance may return tiny negative weights.
        received = operator(own.float()).clamp(min=0).cpu().double()
        own = own.cpu()
        right += (received * own).sum(dim=1)
        wrong += (received * ~own).sum(dim=1)
    receives = (y.cpu() >= 0) & (wrong + right > 0)
    wrong, total = wrong[receives], (wrong + right)[receives]
    return Rates(per_node=float((wrong / total).mean()), per_edge=float(wrong.sum() / total.sum()))


def chance_epr(y: Tensor) -> float:
    """Return 1 − Σ_c (n_c/n)², the EPR of messages from random labelled nodes.

    Args:
        y: class of each node, ``[N]``; −1 for none.

    Examples:
        >>> import torch
        >>> chance_epr(torch.tensor([0, 0, 1, 1, -1]))
        0.5
    """
    counts = torch.bincount(y[y >= 0]).double()
    return float(1 - (counts / counts.sum()).square().sum())


def layer_operator(adjacency: SparseMatrix, neighbour_norm: Tensor, own_norm: Tensor) -> Operator:
    """Return the operator whose weights are the norms of the messages that a layer passes.

    A layer H = Â X W + X R passes to node i the messages Â_ij x_j W from its neighbours j, and its own message
    Â_ii x_i W + x_i R. The weights are the norms of these vectors:

        M_ij = Â_ij ‖x_j W‖ for j ≠ i,    M_ii = ‖x_i (Â_ii W + R)‖.

    :func:`operator_epr` of M is the error passing rate of the layer.

    Args:
        adjacency: Â, with an entry for each self-loop or none.
        neighbour_norm: the norm ‖x_j W‖ of what each node sends before it is weighted by Â, ``[N]``.
        own_norm: the norm of the own message of each node, ``[N]``.

    Examples:
        >>> import torch
        >>> from epagcl.data.graph import Graph
        >>> graph = Graph(x=torch.ones(2, 1), pairs=torch.tensor([[0], [1]]), num_nodes=2)
        >>> layer_operator(graph.adjacency, torch.tensor([4.0, 2.0]), torch.tensor([3.0, 3.0]))(torch.eye(2))
        tensor([[3.0000, 1.0000],
                [2.0000, 3.0000]])
    """
    num_nodes = adjacency.shape[0]
    for name, norm in (("neighbour_norm", neighbour_norm), ("own_norm", own_norm)):
        if norm.shape != (num_nodes,):
            raise InputError(f"{name}= has shape {tuple(norm.shape)}; pass one norm per node, [{num_nodes}]")
    row, col = adjacency.row, adjacency.col.long()
    other = row != col
    node = torch.arange(num_nodes, device=row.device)
    value = torch.cat([(adjacency.value * neighbour_norm[col])[other], own_norm])
    entries = torch.cat([row[other], node]), torch.cat([col[other], node])
    matrix = SparseMatrix.from_coo(*entries, value.float(), adjacency.shape)
    return lambda h: multiply(matrix, h)
