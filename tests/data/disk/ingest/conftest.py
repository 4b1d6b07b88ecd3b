import pytest

from epagcl.data.disk.ingest.work import Work, opened_work


@pytest.fixture(autouse=True)
def engine():
    """Skip the tests where the engine of ingestion is not installed."""
    pytest.importorskip("duckdb", reason="needs the extra ingest")


@pytest.fixture
def work(tmp_path):
    """An empty work folder with an engine."""
    folder = tmp_path / "graph"
    folder.mkdir()
    with opened_work(folder, {}, 2**30, lambda words, share: None) as work:
        assert isinstance(work, Work)
        yield work
