import pytest

from epagcl.study.shapes import fits

NAN = float("nan")


@pytest.mark.parametrize(
    ("shape", "fitting", "others"),
    [
        (float, [0, 1.5], [NAN, float("inf"), True, "1", None]),
        (int, [3], [3.0, False, None]),
        (bool, [True], [1, None]),
        (str, [""], [1, None]),
        (None, [None], [0, False]),
        (object, [None, NAN, True, "x", []], []),
        ((float, None), [1.0, None], [NAN, "x"]),
        ([float], [[1], [1, 2.5]], [[], [1, None], 1.0, {}]),
        (dict, [{}, {"a": 1}], [[], None]),
        ({"a": int}, [{"a": 1}, {"a": 1, "b": 2}], [{}, {"a": "1"}, [], None]),
        ({"a?": int}, [{}, {"a": 1}], [{"a": None}]),
        ({str: [int]}, [{}, {"x": [1], "y": [2]}], [{"x": [1], "y": 2}]),
    ],
)
def test_values_of_each_shape(shape, fitting, others):
    assert [fits(value, shape) for value in fitting] == [True] * len(fitting)
    assert [fits(value, shape) for value in others] == [False] * len(others)
