import json

import pytest

from epagcl.core.errors import InputError, MissingExtra, OutputError
from epagcl.data.disk.ingest import work as module
from epagcl.data.disk.ingest.work import opened_work, quoted, require_engine, was_finished

GIB = 2**30


def silent(words, share):
    pass


def test_a_stage_runs_once_and_its_result_is_kept(tmp_path):
    runs = []

    def job():
        runs.append(1)
        return {"rows": 3}

    def stop():
        raise KeyboardInterrupt

    def stopped():
        with opened_work(tmp_path, {"a": 1}, GIB, silent) as work:
            assert work.stage("rows", "reading", job) == {"rows": 3}
            work.stage("ids", "finding", stop)

    with pytest.raises(KeyboardInterrupt):
        stopped()
    journal = json.loads((tmp_path / "ingest" / "journal.json").read_text())
    assert journal["stages"]["rows"]["rows"] == 3
    with opened_work(tmp_path, {"a": 1}, GIB, silent) as work:
        assert work.stage("rows", "reading", job)["rows"] == 3
    assert runs == [1]
    assert not (tmp_path / "ingest").exists()


@pytest.mark.parametrize("journal", ['{"key": "other", "stages": {}}', "{", "[]"])
def test_another_or_a_damaged_journal_starts_again(tmp_path, journal):
    (tmp_path / "ingest").mkdir()
    (tmp_path / "ingest" / "journal.json").write_text(journal)
    (tmp_path / "ingest" / "rows.parquet").touch()
    with opened_work(tmp_path, {}, GIB, silent) as work:
        assert work.stages == {}
        assert not work.path("rows.parquet").exists()


def test_one_process_at_a_time(tmp_path):
    with (
        opened_work(tmp_path, {}, GIB, silent),
        pytest.raises(InputError, match="another ingestion works there; wait for it, or give another folder"),
        opened_work(tmp_path, {}, GIB, silent),
    ):
        pass


def test_work_beside_a_finished_graph_is_removed(tmp_path):
    inputs = {"a": 1}
    assert not was_finished(tmp_path, inputs)
    (tmp_path / "manifest.json").touch()
    assert not was_finished(tmp_path, inputs)
    for journal, finished in ((inputs, True), ({"a": 2}, False), (None, False)):
        (tmp_path / "ingest" / "spill").mkdir(parents=True)
        if journal is not None:
            (tmp_path / "ingest" / "journal.json").write_text(json.dumps({"key": module._key(journal), "stages": {}}))
        assert was_finished(tmp_path, inputs) is finished
        assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_the_journal_is_removed_last(tmp_path, monkeypatch):
    def stop(path, **options):
        assert path.name == "ingest"
        assert sorted(file.name for file in path.iterdir()) == ["journal.json", "lock"]
        raise KeyboardInterrupt

    def work():
        with opened_work(tmp_path, {"a": 1}, GIB, silent) as opened:
            opened.stage("rows", "reading", lambda: {"rows": 3})
            opened.path("rows.parquet").touch()
            monkeypatch.setattr(module.shutil, "rmtree", stop)

    with pytest.raises(KeyboardInterrupt):
        work()


def test_queries_are_copied_and_yielded_in_batches(work, monkeypatch):
    work.copy("SELECT range AS k FROM range(10)", "k.parquet")
    query = f"SELECT k FROM '{quoted(work.path('k.parquet'))}' ORDER BY k"
    assert [k for (k,) in work.sql(query)] == list(range(10))
    assert [k for batch in work.batches(query, 10) for k in batch.column(0).to_pylist()] == list(range(10))


def test_progress_is_reported(tmp_path, monkeypatch):
    reported = []
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.001)
    with opened_work(tmp_path, {}, GIB, lambda *report: reported.append(report)) as work:
        query = "SELECT count(*) AS n FROM range(20000000) t(k) WHERE hash(k) % 7 = 1"
        work.stage("count", "counting", lambda: {"n": work.sql(query)})
        work.progress(2.0)
    assert reported[0] == ("counting", None)
    assert reported[-1] == ("counting", 1.0)
    assert all(share is None or 0 <= share <= 1 for _, share in reported)


def test_errors_of_the_engine_are_one_line(work, monkeypatch):
    import duckdb

    with pytest.raises(InputError, match=r"the tables cannot be processed \(Binder Error"):
        work.sql("SELECT nothing")
    for error, kind, message in (
        (duckdb.IOException("Could not write: No space left on device"), OutputError, "No space left on device"),
        (duckdb.OutOfMemoryException("out"), InputError, "1 GiB of memory are too few; give a larger memory="),
    ):
        with pytest.raises(kind, match=message), work._running():
            raise error


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"ingest needs duckdb: pip install '\.\[ingest\]'"):
        require_engine()
