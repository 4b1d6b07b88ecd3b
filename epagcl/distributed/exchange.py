"""Exchange of rows between ranks: any rows of a matrix whose rows are spread over the ranks, with gradients."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from epagcl.distributed.group import Transfer
from epagcl.distributed.partition import Part


class Exchange(NamedTuple):
    """Which rows each rank sends to each other rank. All ranks derive it from what they know, without messages.

    Attributes:
        part: the partition of the rows.
        send: the own rows to send, as local numbers, one block per rank.
        sent: number of rows for each rank.
        received: number of rows from each rank.
        place: position of each received row in the result; None: as they come, sorted by owner.
    """

    part: Part
    send: Tensor
    sent: list[int]
    received: list[int]
    place: Tensor | None = None

    @classmethod
    def of_order(cls, part: Part, order: Tensor, sizes: list[int] | None = None) -> "Exchange":
        """Return the exchange after which the rows of a matrix are in another order.

        Args:
            part: the partition of the rows.
            order: the row that comes to each place, the same on all ranks.
            sizes: number of places of each rank; by default as in ``part``.

        Examples:
            >>> from epagcl.distributed.group import Ranks
            >>> part = Part(Ranks(0, 1), num_nodes=3)
            >>> Exchange.of_order(part, torch.tensor([2, 0, 1])).received
            [3]
        """
        sizes = part.sizes if sizes is None else sizes
        blocks = order.split(sizes)
        wanted = [block[part.owns(block)] - part.start for block in blocks]
        owner = part.owner(blocks[part.ranks.rank])
        received = torch.bincount(owner, minlength=part.ranks.size).tolist()
        place = torch.argsort(owner, stable=True)
        return cls(part, torch.cat(wanted), [rows.numel() for rows in wanted], received, place)

    def start(self, x: Tensor, blocks: int, purpose: str) -> tuple[Tensor, Transfer]:
        """Start to exchange rows of ``x``, which has some blocks of own rows.

        Returns:
            The received rows ``[rows, blocks, d]``, which may be read once the transfer is complete.
        """
        rows = x.view(blocks, self.part.size, x.shape[1]).index_select(1, self.send).transpose(0, 1)
        return self.part.ranks.all_to_all(rows, self.sent, self.received, purpose)


def exchange_rows(x: Tensor, exchange: Exchange, blocks: int = 1, purpose: str = "rows") -> Tensor:
    """Return the received rows of an exchange, ``[blocks·rows, d]``. The gradient takes the same way back.

    Args:
        x: own rows, ``[blocks·n, d]``.
        exchange: which rows go where.
        blocks: number of blocks of own rows in ``x``, such as the views of a graph.
        purpose: a name for the traffic.

    Examples:
        With one rank, rows are put in another order:

        >>> from epagcl.distributed.group import Ranks
        >>> exchange = Exchange.of_order(Part(Ranks(0, 1), 3), torch.tensor([2, 0, 1]))
        >>> exchange_rows(torch.tensor([[1.0], [2.0], [3.0]]), exchange).flatten()
        tensor([3., 1., 2.])
    """
    return _ExchangeRows.apply(x, exchange, blocks, purpose)


class _ExchangeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, exchange: Exchange, blocks: int, purpose: str) -> Tensor:
        ctx.exchange, ctx.blocks, ctx.purpose = exchange, blocks, purpose
        received, transfer = exchange.start(x.contiguous(), blocks, purpose)
        transfer.wait()
        if exchange.place is not None:
            received = torch.empty_like(received).index_copy_(0, exchange.place, received)
        return received.transpose(0, 1).flatten(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        exchange: Exchange = ctx.exchange
        part = exchange.part
        rows = sum(exchange.received)
        grad = grad.reshape(ctx.blocks, rows, grad.shape[1]).transpose(0, 1)
        if exchange.place is not None:
            grad = grad.index_select(0, exchange.place)
        back, transfer = part.ranks.all_to_all(grad, exchange.received, exchange.sent, ctx.purpose)
        dx = grad.new_zeros(ctx.blocks, part.size, grad.shape[2])
        transfer.wait()
        # One rank at a time: a row goes to a rank at most once, so that no two gradients are added at once.
        for index, values in zip(exchange.send.split(exchange.sent), back.split(exchange.sent), strict=True):
            dx.index_add_(1, index, values.transpose(0, 1))
        return dx.flatten(0, 1), None, None, None


def sum_over_ranks(x: Tensor, part: Part) -> Tensor:
    """Return the sum of a tensor over all ranks. The gradient is the sum of the gradients of all ranks.

    Examples:
        >>> from epagcl.distributed.group import Ranks
        >>> sum_over_ranks(torch.ones(2), Part(Ranks(0, 1), 2)).tolist()
        [1.0, 1.0]
    """
    return _Sum.apply(x, part)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Part) -> Tensor:
        ctx.part = part
        return part.sum(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.part.sum(grad), None
