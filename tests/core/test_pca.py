import numpy as np
import pytest
import torch

from epagcl.core import pca
from epagcl.core.pca import Operator, principal_components, side_by_side
from tests.conftest import Largest


def matrix_of(singular_values, n, f, seed=0, offset=1.0):
    """Return an n×f matrix whose centred part has the given singular values, in float64."""
    random = np.random.default_rng(seed)
    k = len(singular_values)
    left = random.standard_normal((n, k))
    left = np.linalg.qr(left - left.mean(0))[0]  # columns orthogonal to 1, so that centring changes nothing
    right = np.linalg.qr(random.standard_normal((f, k)))[0]
    return left * np.asarray(singular_values) @ right.T + offset * random.standard_normal(f)


def exact(matrix, dim, mean=None):
    """Return the mean, the singular values and the directions by numpy's SVD in float64."""
    mean = matrix.mean(0) if mean is None else mean
    _, values, right = np.linalg.svd(matrix - mean, full_matrices=False)
    return mean, values[:dim], right[:dim].T


def components_of(matrix, dim, **options):
    mean, directions = principal_components(Operator.of(torch.tensor(matrix, dtype=torch.float32)), dim, **options)
    assert mean.dtype == directions.dtype == torch.float32
    assert directions.shape == (matrix.shape[1], dim)
    return mean.double().numpy(), directions.double().numpy()


def assert_close_to_exact(matrix, dim, tolerance=1e-3):
    """Assert that directions are orthonormal, capture the most variance, and give scores with the singular values."""
    mean, directions = components_of(matrix, dim)
    expected_mean, values, expected = exact(matrix, dim)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-5 * np.abs(matrix).max())
    scores = (matrix - expected_mean) @ directions
    norms = np.linalg.norm(scores, axis=0)
    rank = (values > 1e-5 * np.linalg.norm(values)).sum()
    np.testing.assert_allclose(norms[:rank], values[:rank], rtol=tolerance, atol=tolerance * values[0])
    np.testing.assert_allclose(directions.T @ directions, np.diag((np.arange(dim) < rank) * 1.0), atol=2e-6)
    assert (directions[:, rank:] == 0).all()
    difference = scores - (matrix - expected_mean) @ expected @ (expected.T @ directions)  # parts outside the subspace
    return np.linalg.norm(difference) / np.linalg.norm(values)


@pytest.mark.parametrize(("n", "f"), [(600, 300), (300, 600)])
@pytest.mark.parametrize("decay", [0.8, 0.95])
def test_subspace_and_scores_equal_numpys_svd_with_a_decaying_spectrum(n, f, decay):
    assert assert_close_to_exact(matrix_of(decay ** np.arange(200), n, f), 20) < 1e-3


def test_each_direction_equals_numpys_where_singular_values_differ():
    matrix = matrix_of(0.7 ** np.arange(30), 400, 250)
    _, directions = components_of(matrix, 8)
    _, _, expected = exact(matrix, 8)
    largest = np.abs(expected).argmax(0)
    expected = expected * np.sign(expected[largest, np.arange(8)])
    np.testing.assert_allclose(directions, expected, atol=1e-4)


def test_a_slowly_decaying_spectrum_loses_hardly_any_variance():
    matrix = matrix_of(1 / np.sqrt(np.arange(1, 401)), 900, 500)
    _, directions = components_of(matrix, 64)
    _, values, _ = exact(matrix, 64)
    captured = np.square((matrix - matrix.mean(0)) @ directions).sum()
    assert 0.999 < captured / np.square(values).sum() <= 1 + 1e-6


def test_a_flat_spectrum_keeps_all_singular_values():
    # Every direction of the row space is a leading one.
    matrix = matrix_of(np.full(100, 3.0), 400, 300)
    _, directions = components_of(matrix, 40)
    scores = (matrix - matrix.mean(0)) @ directions
    np.testing.assert_allclose(scores.T @ scores, 9 * np.eye(40), atol=1e-3)


@pytest.mark.parametrize(("n", "f", "rank"), [(400, 300, 5), (400, 20, 5), (30, 400, 5), (400, 300, 1), (400, 300, 70)])
def test_columns_beyond_the_rank_are_zero(n, f, rank):
    assert assert_close_to_exact(matrix_of(np.linspace(2, 1, rank), n, f), 16) < 1e-3


@pytest.mark.parametrize(("n", "f", "dim"), [(10, 300, 32), (300, 10, 32), (3, 2, 8), (90, 100, 64)])
def test_small_matrices_are_exact(n, f, dim):
    rank = min(n - 1, f)
    error = assert_close_to_exact(matrix_of(0.9 ** np.arange(rank), n, f), dim, 1e-5)
    assert error < 1e-5


@pytest.mark.parametrize(
    "rows", [np.ones((50, 7)), np.ones((1, 7)), np.tile(np.arange(300.0), (200, 1)), np.zeros((9, 4))]
)
def test_equal_rows_have_no_direction(rows):
    mean, directions = components_of(rows, 3)
    np.testing.assert_allclose(mean, rows[0], rtol=1e-6)
    assert (directions == 0).all()


def test_integers_that_depend_exactly_are_handled():
    random = np.random.default_rng(0)
    matrix = np.kron(random.integers(0, 2, (100, 3)) @ random.integers(0, 2, (3, 60)), np.ones((2, 5))).astype(float)
    assert assert_close_to_exact(matrix, 8) < 1e-4


def test_a_large_mean_does_not_hide_the_variance():
    assert assert_close_to_exact(matrix_of(0.9 ** np.arange(100), 500, 300, offset=10.0), 10) < 1e-3


def test_a_given_mean_is_subtracted():
    matrix = matrix_of(0.8 ** np.arange(40), 300, 200)
    mean, directions = components_of(matrix, 5, mean=torch.zeros(200))
    assert (mean == 0).all()
    _, values, _ = exact(matrix, 5, mean=0.0)
    np.testing.assert_allclose(np.linalg.norm(matrix @ directions, axis=0), values, rtol=1e-4)


def test_the_entry_of_largest_absolute_value_is_positive():
    _, directions = components_of(matrix_of(0.9 ** np.arange(50), 300, 200), 12)
    assert (directions.max(0) == np.abs(directions).max(0)).all()


def test_a_tie_of_largest_values_makes_the_first_positive():
    _, directions = components_of(np.array([[1.0, -1.0], [-1.0, 1.0]]), 1)
    assert directions[0, 0] > 0 > directions[1, 0]


@pytest.mark.parametrize("shape", [(400, 300), (400, 20), (20, 400)])
def test_two_calls_agree_bit_for_bit_and_leave_the_generator_alone(shape):
    operator = Operator.of(torch.randn(shape, generator=torch.Generator().manual_seed(0)))
    state = torch.get_rng_state()
    first, second = (principal_components(operator, 12) for _ in range(2))
    assert torch.equal(first.directions, second.directions)
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(torch.get_rng_state(), state)


def test_more_blocks_capture_more_variance_with_as_many_products():
    matrix = torch.tensor(matrix_of(1 / np.sqrt(np.arange(1, 401)), 900, 500), dtype=torch.float32)
    captured, columns = [], []
    for iterations in (2, 4, 8):
        counted = []

        def multiply(v, counted=counted):
            counted.append(v.shape[1])
            return matrix @ v

        operator = Operator((900, 500), multiply, lambda v: matrix.T @ v, matrix.device)
        mean, directions = principal_components(operator, 32, iterations=iterations, oversampling=32)
        captured.append(float(((matrix - mean) @ directions).square().sum()))
        columns.append(sum(counted))
    assert captured == sorted(captured)
    assert columns == [64, 64, 64]


def test_more_iterations_than_columns_are_not_needed():
    matrix = matrix_of([3.0, 2.0, 0.1], 50, 40)
    mean, directions = principal_components(
        Operator.of(torch.tensor(matrix, dtype=torch.float32)), 2, iterations=9, oversampling=1
    )
    scores = (matrix - mean.double().numpy()) @ directions.double().numpy()
    np.testing.assert_allclose(np.linalg.norm(scores, axis=0), [3, 2], rtol=1e-4)


def test_memory_is_linear_and_chunks_change_nothing(monkeypatch):
    n, f = 5000, 4000
    left, right = torch.randn(n, 6), torch.randn(6, f)
    operator = Operator((n, f), lambda v: left @ (right @ v), lambda v: right.T @ (left.T @ v), left.device)
    with Largest() as largest:
        whole = principal_components(operator, 8)
    assert largest.bytes <= 8 * n * 72 * 2
    monkeypatch.setattr(pca, "CHUNK", 999)
    torch.testing.assert_close(principal_components(operator, 8).directions, whole.directions)


def test_operators_side_by_side():
    random = torch.Generator().manual_seed(0)
    a, b = torch.randn(5, 3, generator=random), torch.randn(5, 2, generator=random)
    both, matrix = side_by_side([Operator.of(a), Operator.of(b)], [2.0, -1.0]), torch.cat([2 * a, -b], dim=1)
    assert both.shape == (5, 5)
    torch.testing.assert_close(both.multiply(torch.eye(5)), matrix)
    torch.testing.assert_close(both.multiply_transposed(torch.eye(5)), matrix.T)
