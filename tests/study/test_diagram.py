from dataclasses import replace
from itertools import pairwise

import pytest

from epagcl.core.errors import InputError
from epagcl.study.diagram import as_text, diagram, save_diagram
from epagcl.study.ranking import rank


@pytest.fixture(scope="module")
def ranking():
    """Five rows in the same order on eight graphs, with a group of neighbours at each end."""
    scores = {title: {f"g{k}": 5.0 - place for k in range(8)} for place, title in enumerate("abcde")}
    return replace(rank(scores), groups=(("a", "b"), ("c", "d"), ("d", "e")), critical_difference=2.0)


def test_text_has_a_mark_at_each_mean_rank(ranking):
    lines = as_text(ranking, width=9).splitlines()
    assert lines[0] == "CD  ├───┤      2.00"
    assert lines[1] == "    1 2 3 4 5"
    assert [line.index("●") for line in lines[2:]] == [4, 6, 8, 10, 12]
    assert [line.split()[2] for line in lines[2:]] == ["1.00", "2.00", "3.00", "4.00", "5.00"]


def test_bars_of_neighbouring_groups_do_not_touch(ranking):
    bars = [line[19:] for line in as_text(ranking, width=9).splitlines()[2:]]
    assert bars == ["  ┃", "  ┃", "   ┃", "  ┃┃", "  ┃"]


def test_a_difference_longer_than_the_axis_ends_in_an_arrow(ranking):
    line = as_text(replace(ranking, critical_difference=9.5), width=9).splitlines()[0]
    assert line == "CD  ├───────→  9.50"


def test_the_figure_labels_every_row_and_draws_every_group(ranking):
    axes = diagram(ranking).axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert texts[0] == "Nemenyi's critical difference 2.00"
    assert texts[1:6] == ["1", "2", "3", "4", "5"]
    assert texts[6:] == ["a  1.00", "b  2.00", "c  3.00", "4.00  d", "5.00  e"]
    bars = [line for line in axes.lines if line.get_linewidth() == 3.5]
    assert sorted(round(float(bar.get_xdata()[0]) + 0.008, 6) for bar in bars) == [0, 0.5, 0.75]


def test_labels_of_a_side_do_not_overlap_and_lie_inside_the_figure(ranking):
    figure = diagram(ranking)
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts[6:]]
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1
    for side in (boxes[:3], boxes[3:]):
        heights = sorted((box.y0, box.y1) for box in side)
        assert all(low[1] < high[0] for low, high in pairwise(heights))


def test_files_are_reproducible_and_named_by_their_suffix(ranking, tmp_path):
    for name in ("a.svg", "new/b.svg", "c.png"):
        save_diagram(ranking, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "new/b.svg").read_bytes()
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "a.svg").read_text()
    assert "5.00  e" in text  # text stays text
    assert "#ffffff" not in text  # the background is transparent
    with pytest.raises(InputError, match=r"d.txt: a figure is written as .svg or .png; change the suffix"):
        save_diagram(ranking, tmp_path / "d.txt")
