"""Parts of the page's script by themselves: ticks, axes, and the grid that finds points, against brute force."""

import numpy as np
import pytest
from matplotlib.path import Path as Polygon

from epagcl.report.page import HERE
from tests.report.browser import payload, run_payload


@pytest.fixture(scope="module")
def evaluate(browser):
    """Evaluate an expression in an empty page that has the functions of some parts of the script."""
    page = browser.new_page()
    parts = "".join((HERE / name).read_text(encoding="utf-8") for name in ("dom.js", "axes.js", "map_index.js"))
    yield lambda expression, argument=None: page.evaluate(f"(given) => {{ {parts} return {expression}; }}", argument)
    page.close()


@pytest.mark.parametrize(
    ("low", "high", "most", "texts"),
    [
        (0, 10, 5, ["0", "2", "4", "6", "8", "10"]),
        (-0.31, 0.32, 4, ["−0.2", "0.0", "0.2"]),
        (0.161, 0.169, 4, ["0.162", "0.164", "0.166", "0.168"]),
        (0, 45_000, 5, ["0", "10k", "20k", "30k", "40k"]),
        (5_016, 5_480, 3, ["5,200", "5,400"]),
    ],
)
def test_ticks_are_round(evaluate, low, high, most, texts):
    ticks = evaluate(f"roundTicks({low}, {high}, {most})")
    assert [tick["text"] for tick in ticks] == texts


@pytest.mark.parametrize(
    ("low", "high", "most", "values"),
    [
        (1, 100, 6, [1, 2, 5, 10, 20, 50, 100]),
        (0.5, 20_000, 5, [1, 10, 100, 1_000, 10_000]),
        (1, 1e8, 3, [1, 1e3, 1e6]),
    ],
)
def test_ticks_of_a_logarithmic_axis(evaluate, low, high, most, values):
    assert [tick["value"] for tick in evaluate(f"logTicks({low}, {high}, {most})")] == pytest.approx(values)


@pytest.mark.slow
def test_ticks_are_inside_the_axis_and_not_too_many(evaluate):
    rng = np.random.default_rng(0)
    for _ in range(60):
        low, span, most = float(rng.normal(0, 100)), float(10 ** rng.uniform(-6, 6)), int(rng.integers(2, 12))
        high = low + span
        values = [tick["value"] for tick in evaluate(f"roundTicks({low}, {high}, {most})")]
        assert len(values) <= most + 1
        assert all(low - 1e-6 * span <= value <= high + 1e-6 * span for value in values)
        assert np.ptp(np.diff(values)) <= 1e-6 * span if len(values) > 2 else True


def test_an_axis_places_its_values(evaluate):
    at = "(({ at }, values) => values.map(at))"
    assert evaluate(f"{at}(axisOf({{ values: [2, null, 4], zero: true, tight: true }}), [0, 2, 4])") == [0, 0.5, 1]
    log = evaluate(f"{at}(axisOf({{ values: [0, 1, 100], log: true, tight: true }}), [1, 10, 100])")
    assert log == pytest.approx([0, 0.5, 1])  # zeros are left out
    assert evaluate(f"{at}(axisOf({{ values: [3, 3] }}), [3])") == [0.5]
    assert evaluate(f"{at}(axisOf({{ values: [0, 0], zero: true }}), [0, 0.5])") == [0, 1]
    assert evaluate(f"{at}(axisOf({{ values: [null] }}), [0.5])") == pytest.approx([0.5])


@pytest.mark.parametrize("n", [1, 2, 500])
def test_the_grid_finds_what_brute_force_finds(evaluate, n):
    rng = np.random.default_rng(n)
    x, y = np.round(rng.normal(size=(2, n)), 2)  # rounded, so that points coincide
    visible = (rng.random(n) < 0.8).astype(int)
    corners = rng.normal(size=(7, 2)) * 1.5
    queries = rng.normal(size=(40, 2)) * 1.5
    found = evaluate(
        """(() => {
            const grid = gridOf(given.x, given.y);
            return [given.queries.map(([x, y]) => nearestPoint(grid, x, y, 0.4, given.visible) ?? -1),
                pointsInside(grid, given.corners, given.visible).sort((a, b) => a - b)];
        })()""",
        {
            "x": x.tolist(),
            "y": y.tolist(),
            "visible": visible.tolist(),
            "corners": corners.tolist(),
            "queries": queries.tolist(),
        },
    )
    for (qx, qy), node in zip(queries, found[0], strict=True):
        distances = np.where(visible == 1, np.hypot(x - qx, y - qy), np.inf)
        if node == -1:
            assert distances.min() > 0.4
        else:
            assert distances[node] == pytest.approx(distances.min())
            assert distances[node] <= 0.4
    # A point is inside if it is in an odd number of the triangles that fan out from one corner.
    inside = np.zeros(n, dtype=int)
    points = np.stack([x, y], 1)
    for k in range(1, 6):
        inside += Polygon([corners[0], corners[k], corners[k + 1], corners[0]], closed=True).contains_points(points)
    assert found[1] == np.flatnonzero((inside % 2 == 1) & (visible == 1)).tolist()


@pytest.mark.slow
def test_zero_on_a_logarithmic_axis_is_left_out(open_page):
    chances = {"degree": [0, 1, 100], "mean": [0.5, 0.4, 0.2], "low": [0.4, 0.3, 0.1], "high": [0.6, 0.5, 0.3]}
    structure = run_payload()["structure"] | {"probabilities": {"words": "", "drop": chances, "add": None}}
    page = open_page(payload(run_payload(structure=structure)))
    plot = page.locator(".plot[aria-label^='Probability']")
    plot.scroll_into_view_if_needed()
    plot.locator("svg").wait_for()
    assert plot.locator(".line circle").count() == 2
    paths = plot.locator(".line path").evaluate_all("(all) => all.map((path) => path.getAttribute('d')).join()")
    assert "NaN" not in paths
    assert "Infinity" not in paths
