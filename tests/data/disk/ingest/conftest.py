import pytest

pytest.importorskip("duckdb", reason="needs the extra ingest")

from epagcl.data.disk.ingest.work import Work, opened_work


@pytest.fixture
def work(tmp_path):
    """An empty work folder with an engine."""
    folder = tmp_path / "graph"
    folder.mkdir()
    with opened_work(folder, {}, 2**30, lambda words, share: None) as work:
        assert isinstance(work, Work)
        yield work
