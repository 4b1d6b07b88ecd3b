"""Matching of the feature columns of an unseen graph to the training columns, by name."""

import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.log import log

if TYPE_CHECKING:
    from epagcl.data.io.columns.encoding import TableEncoding


def column_names(data: Data) -> list[str] | None:
    """Return the names of a graph's feature columns; None if it has none, or if two columns share a name."""
    names = data.get("feature_names")
    names = None if names is None else [str(name) for name in names]
    return names if names is None or len(set(names)) == len(names) else None


def match_columns(
    data: Data, trained: list[str] | None, num_features: int, encoding: "TableEncoding | None" = None
) -> Data:
    """Return the graph with the training columns as features, in the order of training.

    Args:
        data: the graph to embed.
        trained: names of the training columns; None if they had no names.
        num_features: number of training columns.
        encoding: how the table of the training graph was encoded; None if its columns were used as they are.
    """
    if data.get("encoding") != encoding:
        data = _encoded_as(data, trained, encoding)
    names, x = column_names(data), data.x
    if names is not None and trained is not None and names != trained:
        position = {name: k for k, name in enumerate(names)}
        if missing := [name for name in trained if name not in position]:
            raise InputError(
                f"the graph has no feature column {missing[0]!r}, on which the model was trained "
                f"({len(missing)} of {len(trained)} are missing); provide them, or remove the names of all columns"
            )
        _warn_of_extra(names, trained)
        order = torch.tensor([position[name] for name in trained], device=x.device)
        x = x.index_select(1, order) if x.layout == torch.strided else _select_sparse_columns(x, order)
        return data.clone().update({"x": x, "feature_names": trained})
    if x.shape[1] != num_features:
        raise InputError(f"the graph has {x.shape[1]} feature columns, the model was trained on {num_features}")
    return data


def _encoded_as(data: Data, trained: list[str] | None, encoding: "TableEncoding | None") -> Data:
    """Return the graph with the columns of its table encoded as in training, whatever suits this table by itself."""
    raw = data.get("raw_features")
    if raw is None and encoding is not None and column_names(data) is not None:
        raw = encoding.table_of(data.x.to_dense(), data.feature_names)  # a table whose columns are used as they are
    if raw is None or len(raw.frame) != data.num_nodes:
        what = "encoded columns of a table" if encoding is not None else "columns of numbers"
        raise InputError(f"the model was trained on {what}; give the graph with its table of features")
    if encoding is not None:
        for sentence in encoding.unseen(raw):
            _warn_once(f"{raw.source}: {sentence}")
    elif trained is not None:
        _warn_of_extra([str(name) for name in raw.frame], trained)
    x, names = (raw.as_given(trained), trained) if encoding is None else (encoding.transform(raw), None)
    names = names or (encoding.feature_names if encoding is not None else list(raw.frame))
    return data.clone().update({"x": x.to(data.x.device), "feature_names": names, "encoding": encoding})


def _warn_of_extra(names: list[str], trained: list[str]) -> None:
    if extra := [name for name in names if name not in set(trained)]:
        first = ", ".join(extra[:5])
        more = f" and {len(extra) - 5:,} more" if len(extra) > 5 else ""
        _warn_once(f"not used, since the model was trained without: {first}{more}")


@functools.lru_cache(maxsize=256)
def _warn_once(sentence: str) -> None:
    """Warn of a graph once, although a command or a notebook embeds it several times."""
    log.warning("%s", sentence)


def _select_sparse_columns(x: Tensor, order: Tensor) -> Tensor:
    """Return columns of a CSR matrix in the given order."""
    position = torch.full((x.shape[1],), -1, device=x.device)
    position[order] = torch.arange(len(order), device=x.device)
    rows = torch.repeat_interleave(torch.arange(x.shape[0], device=x.device), x.crow_indices().diff())
    columns = position[x.col_indices()]
    selected = columns >= 0
    indices = torch.stack([rows, columns])[:, selected]
    return torch.sparse_coo_tensor(indices, x.values()[selected], (x.shape[0], len(order))).to_sparse_csr()
