"""Reports and maps inside a notebook."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from epagcl.core.errors import InputError
from epagcl.core.files import atomic_path
from epagcl.core.html import block, text
from epagcl.evaluation.health import sample
from epagcl.evaluation.inputs import embedding_tensor
from epagcl.report.figures import map_figure, plain_text
from epagcl.report.maps import TITLES, choose_kind, flat_map
from epagcl.report.nodes import MAX_MAP_NODES, MapContent, column_content

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class InlineReport:
    """A report page that a notebook shows inline, in a frame of its own.

    Attributes:
        title: title of the page.
        page: the page as HTML; :meth:`save` writes it to a file.
        height: height of the frame in pixels.

    Examples:
        >>> InlineReport("EPAGCL on demo", "<p>84.6</p>")
        InlineReport('EPAGCL on demo'; .save("report.html") writes it)
    """

    title: str
    page: str
    height: int = 720

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, and return its path."""
        with atomic_path(path) as temporary:
            temporary.write_text(self.page, encoding="utf-8", errors="backslashreplace")
        return Path(path)

    def __repr__(self) -> str:
        return f'InlineReport({self.title!r}; .save("report.html") writes it)'

    def _repr_html_(self) -> str:
        # The frame has no access to the notebook: its page is of another origin.
        return block(
            f'<iframe title="{text(self.title)}" width="100%" height="{self.height}" '
            f'sandbox="allow-scripts allow-downloads allow-modals" srcdoc="{text(self.page)}"></iframe>'
        )


@dataclass(frozen=True, repr=False)
class InlineMap:
    """A map of an embedding that a notebook shows inline.

    Attributes:
        positions: position of each drawn node, ``[N, 2]``.
        figure: the map as a figure of Matplotlib.
        words: description of the map.

    Examples:
        >>> show(torch.eye(3), labels=["a", "b", "b"])
        InlineMap(PCA of 3 nodes, coloured by 2 labels)
    """

    positions: np.ndarray[Any, Any]
    figure: "Figure"
    words: str

    def save(self, path: str | Path) -> Path:
        """Write the map as a picture; its format follows from the suffix, such as ``.png`` or ``.svg``."""
        with atomic_path(path) as temporary:
            self.figure.savefig(temporary, dpi=150)
        return Path(path)

    def __repr__(self) -> str:
        return f"InlineMap({self.words})"

    def _repr_html_(self) -> str:
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=110)
        picture = base64.b64encode(file.getvalue()).decode()
        return block(f'<img alt="{text(self.words)}" src="data:image/png;base64,{picture}">')


def show(
    z: Tensor | np.ndarray[Any, Any] | pd.DataFrame,
    labels: Tensor | Sequence[Any] | None = None,
    *,
    kind: str = "auto",
    title: str = "",
    seed: int = 0,
) -> InlineMap:
    """Return a map of an embedding, which a notebook shows inline.

    Args:
        z: the embedding, one row per node.
        labels: values to colour by, one per node: classes, clusters or numbers; None and -1 are missing.
        kind: auto, tsne, umap or pca.
        title: title of the map.
        seed: seed of the map.

    Examples:
        >>> z = torch.eye(4)
        >>> show(z, labels=torch.tensor([0, 0, 1, -1])).positions.shape
        (4, 2)
    """
    rows = torch.as_tensor(embedding_tensor(z)).float()
    if rows.dim() != 2 or len(rows) < 2:
        raise InputError(f"z: {tuple(rows.shape)}; give a matrix of at least two rows")
    if not bool(rows.isfinite().all()):
        raise InputError("z: not all values are finite; check the training")
    chosen = choose_kind(kind, min(len(rows), MAX_MAP_NODES))
    if chosen == "none":
        raise InputError("kind='none': choose one of auto, tsne, umap, pca")
    drawn = sample(len(rows), MAX_MAP_NODES)
    positions = flat_map(rows[drawn.to(rows.device)], chosen, seed)
    words = f"{TITLES[chosen]} of {len(drawn):,} nodes"
    content: MapContent = {
        "kind": TITLES[chosen],
        "note": "",
        "nodes": len(rows),
        "x": positions[:, 0].astype(float).tolist(),
        "y": positions[:, 1].astype(float).tolist(),
        "ids": [],
        "columns": [],
        "k": 0,
        "neighbours": [],
        "similarity": [],
    }
    if labels is not None:
        column = _labels(labels, len(rows)).iloc[drawn.numpy()]
        content["columns"] = [column_content(column)]
        words += f", coloured by {column.nunique()} labels" if column.name == "label" else ", coloured by numbers"
    return InlineMap(positions, map_figure(content, plain_text(title), legend=True), words)


def _labels(labels: Tensor | Sequence[Any], count: int) -> "pd.Series[Any]":
    """Return labels as a column: classes, with -1 as missing, or numbers with a fractional part."""
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else labels
    column = pd.Series(np.asarray(values, dtype=object) if not hasattr(values, "dtype") else np.asarray(values))
    if len(column) != count:
        raise InputError(f"labels: {len(column):,} values for {count:,} rows of z; give one per row")
    if pd.api.types.is_integer_dtype(column):
        column = column.astype("Int64").mask(column < 0)
    return column.rename("value" if pd.api.types.is_float_dtype(column) else "label")
