import numpy as np
import pytest

from epagcl.tasks.calibration import expected_calibration_error, fit_temperature, log_loss, softmax


def test_the_temperature_of_overconfident_logits_is_found():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(20_000, 3))
    y = np.array([generator.choice(3, p=row) for row in softmax(logits)])
    assert fit_temperature(3 * logits, y) == pytest.approx(3, rel=0.05)
    assert expected_calibration_error(softmax(3 * logits), y) > 0.15
    assert expected_calibration_error(softmax(3 * logits, fit_temperature(3 * logits, y)), y) < 0.02


def test_softmax_is_stable_and_keeps_the_order():
    assert softmax(np.array([[1000.0, 0.0]])).tolist() == [[1, 0]]
    assert softmax(np.array([[2.0, 0.0]]), 2.0)[0, 0] == pytest.approx(1 / (1 + np.exp(-1)))


def test_calibration_error_in_closed_form():
    probabilities = np.array([[1.0, 0.0], [1.0, 0.0], [0.6, 0.4], [0.6, 0.4]])
    assert expected_calibration_error(probabilities, np.array([0, 1, 0, 1])) == pytest.approx((2 * 0.5 + 2 * 0.1) / 4)
    assert log_loss(np.array([[0.25, 0.75]]), np.array([0])) == pytest.approx(np.log(4))
