"""The folder of an unfinished ingestion: its lock, its journal of finished stages, and the engine that works in it.

DuckDB reads the tables, groups the ids and joins them to node numbers. It spills to the folder what does not fit in its
share of the memory.
"""

import contextlib
import errno
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from epagcl.core.errors import InputError, MissingExtra
from epagcl.core.files import atomic_path, locked, read_json, write_failure, write_json
from epagcl.core.log import log
from epagcl.data.disk.layout import MANIFEST, WORK
from epagcl.data.io.tables.base import one_line

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

#: Called with the words of a stage and the share of it that is done, None if unknown.
Report = Callable[[str, float | None], None]
Result = TypeVar("Result", bound=Mapping[str, Any])

JOURNAL = "journal.json"
#: Share of the memory that DuckDB plans with. Its allocator, Arrow's batches and the interpreter need the rest.
_ENGINE_SHARE = 0.5
_POLL_SECONDS = 0.5
_FULL = ("No space left on device", "max_temp_directory_size", "Disk quota exceeded")
BATCH_ROWS = 1_000_000


class Work:
    """The work of an ingestion. Stages write files to its folder, and a journal says which are finished.

    Args:
        folder: the folder of the graph; the work is in a folder inside.
        key: a digest of everything that the result depends on.
        memory: bytes that the process may use, roughly.
        report: called with the progress.
    """

    def __init__(self, folder: Path, key: str, memory: int, report: Report):
        self.target, self.folder = folder, folder / WORK
        self.key, self.memory, self.report = key, memory, report
        self.stages: dict[str, Mapping[str, Any]] = {}
        self._words = ""
        self._engine: duckdb.DuckDBPyConnection | None = None

    def path(self, name: str) -> Path:
        """Return the path of a file of the work."""
        return self.folder / name

    def stage(self, name: str, words: str, run: Callable[[], Result]) -> Result:
        """Run a stage unless the journal has it, and return its result: plain values.

        Args:
            name: name of the stage in the journal.
            words: what it does, for the progress.
            run: the stage. What it writes must be complete when it returns.
        """
        if name in self.stages:
            return cast(Result, self.stages[name])
        self._words = words
        self.report(words, None)
        start = time.perf_counter()
        result = run()
        self.stages[name] = {**result, "seconds": round(time.perf_counter() - start, 3)}
        write_json({"key": self.key, "stages": self.stages}, self.path(JOURNAL))
        return result

    def progress(self, share: float) -> None:
        """Report the share of the current stage that is done."""
        self.report(self._words, min(max(share, 0.0), 1.0))

    @property
    def engine_memory(self) -> int:
        """Bytes that DuckDB plans with."""
        return int(self.memory * _ENGINE_SHARE)

    @property
    def engine(self) -> "duckdb.DuckDBPyConnection":
        """The connection to DuckDB, opened on first use."""
        if self._engine is None:
            duckdb, _ = require_engine()
            limit = self.engine_memory >> 20
            spill = self.path("spill")
            self._engine = duckdb.connect(
                ":memory:", config={"memory_limit": f"{limit}MB", "temp_directory": str(spill)}
            )
            self._engine.execute("SET preserve_insertion_order = false")
            self._engine.execute("SET enable_progress_bar = true")
            self._engine.execute("SET enable_progress_bar_print = false")
        return self._engine

    def sql(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query with progress and return its rows."""
        with self._running(), self._polling():
            cursor = self.engine.execute(query, list(values))
            return cursor.fetchall()

    def copy(self, query: str, name: str, values: Sequence[Any] = ()) -> None:
        """Write the result of a query to a Parquet file of the work."""
        with atomic_path(self.path(name)) as temporary:
            self.sql(f"COPY ({query}) TO '{quoted(temporary)}' (FORMAT parquet)", values)

    def batches(self, query: str, rows: int) -> "Iterator[pa.RecordBatch]":
        """Yield the result of a query in Arrow batches.

        Args:
            query: the query.
            rows: number of rows of the result, for the progress.
        """
        done = 0
        with self._running():
            for batch in self.engine.sql(query).to_arrow_reader(BATCH_ROWS):
                yield batch
                done += batch.num_rows
                self.progress(done / max(rows, 1))

    def remove(self, *names: str) -> None:
        """Remove files that no later stage needs."""
        for name in names:
            self.path(name).unlink(missing_ok=True)

    def release(self) -> None:
        """Close the engine, which gives its memory back. It opens again when it is needed."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def close(self, *, remove: bool) -> None:
        """Close the engine. Remove the folder if the work is finished."""
        self.release()
        if remove:
            _remove_work(self.folder)
        else:
            shutil.rmtree(self.path("spill"), ignore_errors=True)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Turn errors of the engine into errors of one line."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            words = one_line(error)
            if any(full in words for full in _FULL):
                raise write_failure(self.folder, errno.ENOSPC) from error
            if isinstance(error, duckdb.OutOfMemoryException):
                gib = self.memory / 2**30
                raise InputError(f"{self.folder}: {gib:g} GiB of memory are too few; give a larger memory=") from error
            raise InputError(f"{self.folder}: the tables cannot be processed ({words[:300]}); check them") from error

    @contextmanager
    def _polling(self) -> Iterator[None]:
        """Report the progress of a query from another thread while it runs."""
        engine, done = self.engine, threading.Event()

        def poll() -> None:
            while not done.wait(_POLL_SECONDS):
                percent = engine.query_progress()
                if percent >= 0:
                    self.progress(percent / 100)

        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@contextmanager
def opened_work(folder: Path, inputs: Mapping[str, Any], memory: int, report: Report) -> Iterator[Work]:
    """Yield the work of an ingestion, continued if its inputs are the same. Nobody else may work there.

    Args:
        folder: the folder of the graph, which exists.
        inputs: what the result depends on, as plain values.
        memory: bytes that the process may use, roughly.
        report: called with the progress.
    """
    with _alone(folder):
        work = Work(folder, _key(inputs), memory, report)
        _continue(work)
        try:
            yield work
        except BaseException:
            work.close(remove=False)
            raise
        work.close(remove=True)


def was_finished(folder: Path, inputs: Mapping[str, Any]) -> bool:
    """Remove the work beside a finished graph, left by a process that was killed while it removed it.

    Args:
        folder: the folder of the graph.
        inputs: what a new ingestion depends on.

    Returns:
        Whether there was such work, of the same inputs. Then there is nothing left to do.
    """
    if not ((folder / MANIFEST).is_file() and (folder / WORK).is_dir()):
        return False
    with _alone(folder):
        try:
            journal = read_json(folder / WORK / JOURNAL, "ingest again")
        except InputError:
            journal = {}
        _remove_work(folder / WORK)
    return journal.get("key") == _key(inputs)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Raise if another process works in the folder."""
    with locked(folder / WORK / "lock") as held:
        if not held:
            raise InputError(f"{folder}: another ingestion works there; wait for it, or give another folder")
        yield


def _key(inputs: Mapping[str, Any]) -> str:
    return sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()


def _remove_work(folder: Path) -> None:
    """Remove the folder of the work, the journal last: as long as it is there, it says which graph is finished."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name not in (JOURNAL, "lock"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _continue(work: Work) -> None:
    """Read the journal of an earlier ingestion of the same inputs. Remove the files of any other."""
    if work.path(JOURNAL).is_file():
        try:
            journal = read_json(work.path(JOURNAL), "ingest again")
        except InputError:
            journal = {}
        if journal.get("key") == work.key:
            work.stages = dict(journal["stages"])
            log.info("%s: continues after the stage %s", work.target, list(work.stages)[-1])
            return
        log.warning("%s: the inputs or options changed since the ingestion was stopped; starts again", work.target)
    for path in work.folder.iterdir():
        if path.name != "lock":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def require_engine() -> tuple[Any, Any]:
    """Return the modules duckdb and pyarrow. Raise if one is not installed."""
    try:
        import duckdb
        import pyarrow
    except ModuleNotFoundError as error:
        raise MissingExtra(str(error.name), "ingest", "ingest") from None
    return duckdb, pyarrow


def quoted(text: object) -> str:
    """Return text for a string of SQL, between single quotes."""
    return str(text).replace("'", "''")
