"""Matching of the feature columns of an unseen graph to the training columns, by name."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError


def column_names(data: Data) -> list[str] | None:
    """Return the names of a graph's feature columns; None if it has none, or if two columns share a name."""
    names = data.get("feature_names")
    names = None if names is None else [str(name) for name in names]
    return names if names is None or len(set(names)) == len(names) else None


def match_columns(data: Data, trained: list[str] | None, num_features: int) -> Data:
    """Return the graph with the training columns as features, in the order of training.

    Args:
        data: the graph to embed.
        trained: names of the training columns; None if they had no names.
        num_features: number of training columns.
    """
    names, x = column_names(data), data.x
    if names is not None and trained is not None and names != trained:
        position = {name: k for k, name in enumerate(names)}
        if missing := [name for name in trained if name not in position]:
            raise InputError(
                f"the graph has no feature column {missing[0]!r}, on which the model was trained "
                f"({len(missing)} of {len(trained)} are missing); provide them, or remove the names of all columns"
            )
        order = torch.tensor([position[name] for name in trained], device=x.device)
        x = x.index_select(1, order) if x.layout == torch.strided else _select_sparse_columns(x, order)
        return data.clone().update({"x": x, "feature_names": trained})
    if x.shape[1] != num_features:
        raise InputError(f"the graph has {x.shape[1]} feature columns, the model was trained on {num_features}")
    return data


def _select_sparse_columns(x: Tensor, order: Tensor) -> Tensor:
    """Return columns of a CSR matrix in the given order."""
    position = torch.full((x.shape[1],), -1, device=x.device)
    position[order] = torch.arange(len(order), device=x.device)
    rows = torch.repeat_interleave(torch.arange(x.shape[0], device=x.device), x.crow_indices().diff())
    columns = position[x.col_indices()]
    selected = columns >= 0
    indices = torch.stack([rows, columns])[:, selected]
    return torch.sparse_coo_tensor(indices, x.values()[selected], (x.shape[0], len(order))).to_sparse_csr()
