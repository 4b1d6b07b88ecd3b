import numpy as np
import pytest

from epagcl.tasks import learning_curve
from epagcl.tasks.curve import Curve, Point, _rank_in_class, extrapolate


def power_law(sizes, top=0.9, scale=0.4, exponent=0.5, error=0.005):
    return [Point(n, 3 * n, top - scale * (3 * n) ** -exponent, error) for n in sizes]


def test_extrapolation_of_a_power_law_is_exact():
    points = power_law((1, 2, 5, 10, 20, 50))
    assert extrapolate(points) == pytest.approx(0.9 - 0.4 * 300**-0.5, abs=0.002)
    assert Curve(points, extrapolate(points)).words().endswith("twice as many labels should give about 0.877.")


def test_no_statement_where_the_curve_does_not_support_one():
    points = power_law((1, 2, 5, 10, 20))
    jump = [*points[:-1], points[-1]._replace(accuracy=0.99)]
    falling = [point._replace(accuracy=1 - point.accuracy) for point in points]
    for curve in (points[:4], jump, falling):
        assert extrapolate(curve) is None
    assert "does not support a statement" in Curve(points, None).words()


def test_a_flat_curve_is_called_flat():
    points = [Point(n, n, 0.8, 0.002) for n in (1, 2, 5, 10, 20)]
    assert "the curve is flat" in Curve(points, extrapolate(points)).words()


@pytest.mark.slow
def test_accuracy_grows_with_labels_and_small_classes_give_what_they_have():
    generator = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [100, 60, 8])
    rows = generator.normal(size=(3, 10))[y] + 1.5 * generator.normal(size=(168, 10))
    curve = learning_curve(rows, y)
    assert [point.per_class for point in curve.points] == [1, 2, 3, 5, 10, 20, 50]
    assert [point.labels for point in curve.points] == [3, 6, 9, 14, 24, 44, 84]
    assert curve.points[-1].accuracy > curve.points[0].accuracy + 0.1
    assert curve.to_dict()["points"][0]["labels"] == 3


def test_too_few_labels():
    assert learning_curve(np.eye(39), np.arange(39) % 2) is None
    assert learning_curve(np.eye(60), np.array([0] * 59 + [1])) is None


def test_ranks():
    assert _rank_in_class(np.array([0, 1, 0, 0, 1])).tolist() == [0, 0, 1, 2, 1]
