"""The drawings of "How it works", computed by the package. ``python docs/builder/drawings.py`` writes them.

Lines and text have a grey that is readable on white and on black, because an image does not know the page's background.
"""

import math
import sys
from pathlib import Path

import torch

import epagcl
from epagcl.epr.alpha import alpha_drop
from epagcl.views.probabilities import edge_weights
from epagcl.views.sampling import ViewSampler

FOLDER = Path(__file__).parent.parent / "figures" / "explained"
GREY, FAINT, BLUE, ORANGE, RED, GREEN = "#7b828a", "#9aa0a6", "#0072b2", "#c77700", "#d55e00", "#009e73"

# A graph with two classes and two edges between them.
PLACES = [(40, 55), (150, 48), (110, 122), (40, 185), (150, 200), (235, 165), (320, 205), (250, 80), (345, 75)]
CLASSES = [0, 0, 0, 0, 0, 1, 1, 1, 1]
EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4), (5, 6), (5, 7), (6, 8), (7, 8), (2, 7), (4, 5)]
P_DROP, P_ADD, SEED, EPOCH = 0.3, 0.2, 0, 0
LARGEST = 130.0  # largest √(d_i d_j) on the axis


def small_graph() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the edges in one direction, and the classes."""
    return torch.tensor(EDGES).T, torch.tensor(CLASSES)


def messages() -> str:
    """Draw the small graph with the weight Â of each edge. Edges between classes are dashed."""
    edges, y = small_graph()
    weight = alpha_drop(torch.bincount(edges.flatten()), edges) / 2
    wrong = y[edges[0]] != y[edges[1]]
    parts = []
    for (i, j), value, bad in zip(EDGES, weight.tolist(), wrong.tolist(), strict=True):
        parts.append(_edge(i, j, RED if bad else GREY, width=1 + 5 * value, dash="7 4" if bad else ""))
    for (i, j), value, bad in zip(EDGES, weight.tolist(), wrong.tolist(), strict=True):
        parts.append(_weight(i, j, f"{value:.2f}", RED if bad else GREY))
    parts += [_node(node) for node in range(len(PLACES))]
    return _svg(385, 240, "A graph of nine nodes in two classes, with the weight of the message on each edge", parts)


def view(number: int | None = None) -> str:
    """Draw the small graph (None), its first view (0: edges dropped) or its second view (1: also edges added)."""
    fates = dict.fromkeys(EDGES, "kept") if number is None else view_of(number)
    title = "graph" if number is None else f"view {number + 1}"
    parts = [_text(190, 22, title, 24)]
    for (i, j), fate in fates.items():
        colour, width, dash = {"kept": (GREY, 2.2, ""), "dropped": (FAINT, 2.2, "2 7"), "added": (GREEN, 3.5, "")}[fate]
        parts.append(_edge(i, j, colour, width=width, dash=dash))
    parts += [_node(node) for node in range(len(PLACES))]
    changes = ", ".join(f"{i}–{j} {fate}" for (i, j), fate in fates.items() if fate != "kept")
    return _svg(385, 225, f"{title}: {changes}" if changes else title, parts, shown=232)


def view_of(number: int) -> dict[tuple[int, int], str]:
    """Return what a view does to each pair: kept, dropped or added."""
    edges, y = small_graph()
    probabilities = edge_weights(edges, len(y)).probabilities(P_DROP, P_ADD if number else 0.0)
    kept = set(map(tuple, ViewSampler(probabilities, len(y), seed=SEED, view=number).pairs(EPOCH).T.tolist()))
    fates = {pair: "kept" if pair in kept else "dropped" for pair in EDGES}
    return fates | dict.fromkeys(sorted(kept - set(EDGES)), "added")


def probability(kind: str) -> str:
    """Draw the probability to drop or add a pair against the degrees of its ends, on the graph ``demo``."""
    data = epagcl.load("demo")
    p = epagcl.edge_probabilities(data.edge_index, data.num_nodes, p_drop=0.3, p_add=0.05)
    degree = torch.bincount(data.edge_index[0], minlength=data.num_nodes)
    if kind == "drop":
        panel = _panel("an edge is dropped", degree, p.pairs, p.drop, BLUE, top=1.0)
    else:
        panel = _panel("a candidate is added", degree, p.candidates, p.add, GREEN, top=0.16)
    return _svg(400, 300, f"Probability to {kind} a pair against the degrees of its ends", [panel], shown=355)


def _panel(title: str, degree: torch.Tensor, pairs: torch.Tensor, p: torch.Tensor, colour: str, top: float) -> str:
    """Draw one dot for each product of degrees. Its area shows the number of pairs with this product."""
    product, where, count = (degree[pairs[0]] * degree[pairs[1]]).unique(return_inverse=True, return_counts=True)
    value = torch.zeros(len(product), dtype=torch.float64).index_add_(0, where, p.double()) / count
    left, right, bottom, height = 52, 380, 250, 215
    low, high = 0.0, math.log(LARGEST)

    def x_of(d: float) -> float:
        return left + (math.log(d) - low) / (high - low) * (right - left)

    def y_of(q: float) -> float:
        return bottom - q / top * height

    parts = [
        _text((left + right) / 2, 18, title, 15),
        _text((left + right) / 2, bottom + 42, "√(dᵢ dⱼ) of the pair's ends", 13),
    ]
    for tick in (1, 2, 5, 10, 20, 50, 100):
        parts += [_line(x_of(tick), bottom, x_of(tick), bottom + 5), _text(x_of(tick), bottom + 20, str(tick), 13)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = y_of(share * top)
        parts += [_line(left - 5, y, left, y), _text(left - 10, y + 4, f"{share * top:g}", 13, "end")]
    parts += [_line(left, bottom, right, bottom), _line(left, bottom, left, bottom - height)]
    average, rising = y_of(float(p.mean())), bool(value[-1] > value[0])
    place = (left + 8 if rising else right, average - 6)
    parts += [
        _line(left, average, right, average, "3 4"),
        _text(*place, f"mean {float(p.mean()):.2f}", 13, "start" if rising else "end"),
    ]
    for root, q, number in zip(product.double().sqrt().tolist(), value.tolist(), count.tolist(), strict=True):
        radius = 1.2 + 7 * math.sqrt(number / int(count.max()))
        if root <= LARGEST:
            spot = f'cx="{x_of(root):.1f}" cy="{y_of(q):.1f}" r="{radius:.1f}"'
            parts.append(f'<circle {spot} fill="{colour}" fill-opacity="0.6"/>')
    return "".join(parts)


def _svg(width: int, height: int, title: str, parts: list[str], shown: int | None = None) -> str:
    """Return an SVG image. ``shown`` is its width on a page that is wide enough."""
    wide = shown or width
    size = f'viewBox="0 0 {width} {height}" width="{wide}" height="{wide * height / width:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif"><title>{title}</title>'
    return "\n".join([head, *parts, "</svg>", ""])


def _line(x1: float, y1: float, x2: float, y2: float, dash: str = "", colour: str = GREY, width: float = 1) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:.1f}"{dashes}/>'


def _edge(i: int, j: int, colour: str, width: float, dash: str) -> str:
    return _line(*PLACES[i], *PLACES[j], dash, colour, width)


def _weight(i: int, j: int, label: str, colour: str) -> str:
    """Draw a label to the right of the middle of an edge."""
    (x1, y1), (x2, y2) = PLACES[i], PLACES[j]
    dx, dy = x2 - x1, y2 - y1
    length = math.hypot(dx, dy)
    side = 1 if dy >= 0 else -1
    x, y = (x1 + x2) / 2 + side * 17 * dy / length, (y1 + y2) / 2 - side * 11 * dx / length
    return _text(x, y + 4, label, 13, colour=colour)


def _text(x: float, y: float, text: str, size: int, anchor: str = "middle", colour: str = GREY) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _node(node: int) -> str:
    x, y = PLACES[node]
    colour = (BLUE, ORANGE)[CLASSES[node]]
    return f'<circle cx="{x}" cy="{y}" r="15" fill="{colour}"/>' + _text(x, y + 5.5, str(node), 16, colour="white")


DRAWINGS = {
    "messages": messages,
    "graph": view,
    "view-1": lambda: view(0),
    "view-2": lambda: view(1),
    "probability-drop": lambda: probability("drop"),
    "probability-add": lambda: probability("add"),
}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
    sys.exit()
