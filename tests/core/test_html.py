import math
from xml.etree import ElementTree

from epagcl.core.html import block, sparkline, table, text


def test_text_of_users_stays_text():
    hostile = '</td><script>alert(1)</script>"'
    page = table(hostile, [hostile], [[hostile, hostile]])
    assert "<script" not in page
    tree = ElementTree.fromstring(page)
    assert [cell.text for cell in tree.iter() if cell.tag in ("caption", "th", "td")] == [hostile] * 4
    assert text(3.5) == "3.5"


def test_tables_name_their_rows_and_columns():
    tree = ElementTree.fromstring(table("Scores", ["row", "accuracy"], [["raw", 0.64]]))
    assert [cell.get("scope") for cell in tree.iter("th")] == ["col", "col", "row"]


def test_a_curve_spans_its_picture():
    tree = ElementTree.fromstring(sparkline([3.0, math.nan, 1.0, 2.0], "loss", width=104, height=24))
    points = [tuple(map(float, point.split(","))) for point in tree.find("polyline").get("points").split()]
    assert points == [(2, 2), (52, 22), (102, 12)]
    assert tree.get("role") == "img"
    assert tree.get("aria-label") == "loss: from 3 to 2 in 3 steps"


def test_long_and_short_curves():
    long = ElementTree.fromstring(sparkline(list(range(10_001)), "loss", most=100)).find("polyline").get("points")
    assert 100 <= len(long.split()) <= 102
    assert long.split()[-1] == "238.0,2.0"
    assert sparkline([1.0], "loss") == ""
    assert ",38.0" in sparkline([1.0, 1.0], "loss")  # a constant


def test_a_block_has_no_script_and_no_inline_style():
    page = block(table("a", ["b"], [["c"]]), sparkline([1.0, 2.0], "d"))
    assert "<script" not in page
    assert "style=" not in page
