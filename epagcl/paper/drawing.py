"""Style and files of the figures."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epagcl.core.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's palette and three more, distinguishable by colour-blind readers. Black and grey are for references.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#882255", "#44AA99", "#999933")
GREY = "#777777"
#: The digest of the source of a figure, and how many bytes at the start of a file may hold it.
SOURCE, METADATA = re.compile(rb"source [0-9a-f]{16}"), 4096


def new_figure(rows: int, columns: int, width: float, height: float, **options: Any) -> "tuple[Figure, list[Axes]]":
    """Return a figure and its panels, row by row. Without pyplot there is no window system and no global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **options).flatten().tolist()
    for axes in panels:
        if axes.name == "rectilinear":
            axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def label_rows(axes: "Axes", labels: Sequence[str], **style: Any) -> None:
    """Write labels along the vertical axis, the first at the top."""
    axes.set_yticks(range(len(labels)), labels, **style)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)


def legend(figure: "Figure", axes: "Axes", columns: int) -> None:
    """Add one legend above all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize=9, frameon=False)


def save(figure: "Figure", stem: Path, source: str) -> list[Path]:
    """Write ``<stem>.svg`` and ``<stem>.png`` with the digest of their source in the metadata, and return the paths."""
    import matplotlib

    stem.parent.mkdir(parents=True, exist_ok=True)
    metadata_of = {"svg": {"Date": None, "Description": f"source {source}"}, "png": {"Description": f"source {source}"}}
    written = []
    # Text stays text, so that SVGs are small and searchable. The salt makes their ids reproducible.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "epagcl"}):
        for suffix, metadata in metadata_of.items():
            path = stem.with_name(f"{stem.name}.{suffix}")
            with atomic_path(path) as temporary:
                figure.savefig(temporary, dpi=130, metadata=metadata)
            written.append(path)
    return written


def was_drawn(path: Path) -> bool:
    """Return whether a file is a figure that :func:`save` has written, by the digest in its metadata."""
    if path.suffix not in (".svg", ".png") or not path.is_file():
        return False
    with path.open("rb") as file:
        return SOURCE.search(file.read(METADATA)) is not None
