import errno
import os
import re
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
import torch

from epagcl.core import files, streamed
from epagcl.core.errors import OutputError
from epagcl.core.norms import inverse_norms
from epagcl.core.pca import Operator, principal_components
from epagcl.core.streamed import (
    CSR,
    DiskMatrix,
    FeatureRows,
    StreamedMatrix,
    check_temporary_space,
    column_blocks,
    columns_at_once,
)
from epagcl.data.graph import row_normalise


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(streamed, "CHUNK_BYTES", 256)
    monkeypatch.setattr(streamed, "ENTRIES", 16)


def random_csr(n, seed=0):
    dense = np.triu(np.random.default_rng(seed).random((n, n)) < 0.2, 1)
    dense = (dense + dense.T).astype(np.float32)
    matrix = scipy.sparse.csr_array(dense)
    return dense, CSR(matrix.indptr.astype(np.int64), matrix.indices)


@pytest.mark.parametrize("sparse", [False, True])
def test_products_of_feature_rows_equal_those_of_the_matrix(small_chunks, sparse):
    x = np.random.default_rng(0).random((50, 7)).astype(np.float32) * (np.random.default_rng(1).random((50, 7)) < 0.4)
    rows = FeatureRows(scipy.sparse.csr_array(x) if sparse else x)
    dense, v, w = torch.from_numpy(x), torch.randn(7, 3), torch.randn(50, 2)
    assert len(list(rows.spans())) > 3
    torch.testing.assert_close(rows @ v, dense @ v)
    torch.testing.assert_close(rows.T @ w, dense.T @ w)
    torch.testing.assert_close(inverse_norms(rows), inverse_norms(dense))
    taken = rows.take(np.array([4, 2]))
    torch.testing.assert_close(taken.to_dense() if sparse else taken, dense[[4, 2]])


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_scaled_as_they_are_read(small_chunks, sparse):
    x = np.random.default_rng(0).random((20, 5)).astype(np.float32)
    rows = FeatureRows(scipy.sparse.csr_array(x) if sparse else x, lambda part: row_normalise(part, "norm"))
    torch.testing.assert_close(rows @ torch.eye(5), row_normalise(torch.from_numpy(x), "norm"))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_streamed_matrix_equals_the_dense_formula(small_chunks, weighted):
    dense, csr = random_csr(40)
    if weighted:
        values = np.random.default_rng(2).random(len(csr.indices)).astype(np.float32)
        csr = csr._replace(weights=values)
        dense = scipy.sparse.csr_array((values, csr.indices, csr.indptr), shape=(40, 40)).toarray()
    scale, y = torch.rand(40), torch.randn(40, 6)
    matrix = StreamedMatrix([csr, csr], scale, loop=0.5, factor=2.0)
    expected = 2 * scale[:, None] * ((2 * torch.from_numpy(dense) + 0.5 * torch.eye(40)) @ (scale[:, None] * y))
    torch.testing.assert_close(matrix @ y, expected)
    torch.testing.assert_close(matrix.scaled(3) @ y, 3 * expected)


def test_a_row_with_more_entries_than_a_chunk_is_one_chunk(monkeypatch):
    monkeypatch.setattr(streamed, "ENTRIES", 2)
    star = CSR(np.array([0, 4, 5, 6, 7, 8]), np.array([1, 2, 3, 4, 0, 0, 0, 0], dtype=np.int32))
    assert list(star.spans()) == [(0, 1), (1, 3), (3, 5)]


def test_a_matrix_on_disk_reads_back_what_was_appended(small_chunks):
    x = torch.randn(30, 10)
    with DiskMatrix(30) as matrix:
        matrix.append(x[:, :4])
        matrix.append_rows(iter(x[:, 4:].split(7)), 6)
        assert matrix.shape == (30, 10)
        assert torch.equal(torch.cat(list(matrix.chunks())), x)
        assert torch.equal(torch.cat(list(matrix.split(11))), x)
        torch.testing.assert_close(matrix @ torch.eye(10), x)


class Full:
    """A temporary file on a full disk."""

    def write(self, values):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    close = flush = lambda self: self.write(b"")


def test_a_full_disk_is_one_line_that_names_the_folder(monkeypatch):
    monkeypatch.setattr(streamed.tempfile, "TemporaryFile", Full)
    folder = tempfile.gettempdir()
    message = (
        f"^{re.escape(folder)}: cannot be written \\(No space left on device\\); free some space there, or set TMPDIR"
    )
    with DiskMatrix(2) as matrix, pytest.raises(OutputError, match=message):
        matrix.append(torch.ones(2, 1))
    with DiskMatrix(2) as matrix, pytest.raises(OutputError, match=message):
        matrix.append_rows([], 1)


def test_too_little_space_for_temporary_files_is_said_before(monkeypatch):
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**6))
    check_temporary_space(1000, 250)
    with pytest.raises(OutputError, match=r"about 2 MB will be written, but only 1 MB are free; .*set TMPDIR"):
        check_temporary_space(1000, 500)


@pytest.mark.parametrize(("features", "dim"), [(30, 8), (300, 4)], ids=["exact", "krylov"])
def test_principal_components_on_disk_are_those_in_memory(features, dim):
    x = torch.randn(200, features) * torch.linspace(3, 0.1, features)
    operator = Operator.of(x)
    with DiskMatrix(200) as store:
        on_disk = principal_components(operator, dim, oversampling=40, store=store)
        assert store.shape[1] in (features, dim + 40)
    in_memory = principal_components(operator, dim, oversampling=40)
    torch.testing.assert_close(on_disk.directions, in_memory.directions, atol=1e-5, rtol=1e-5)


def test_the_number_of_columns_follows_from_the_memory(monkeypatch):
    assert columns_at_once(1_000) == streamed.MOST_COLUMNS
    assert columns_at_once(1_000_000) == 2**30 // (20 * 10**6)
    monkeypatch.setattr(streamed, "available_memory", lambda device: 16 * 2**30)
    assert columns_at_once(100_000_000) == 2  # 4 GiB for five copies of 0.4 GB a column
    monkeypatch.setattr(streamed, "available_memory", lambda device: 2**30)
    assert columns_at_once(1_000_000_000) == 1
    assert column_blocks(3, 5) == [slice(0, 3)]
