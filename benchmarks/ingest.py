"""Ingestion of generated edges with text ids: time, memory over time, and a comparison of engines.

``python -m benchmarks ingest`` first measures three libraries on the heart of the task, from text ids to distinct
pairs of node numbers, and then a whole ingestion. Each measurement is a process of its own, whose memory is sampled
from outside.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypedDict

import numpy as np

from epagcl.core.errors import InputError
from epagcl.core.memory import resident_memory
from epagcl.report.metrics import Provenance
from epagcl.runs.record import peak_memory_gib, provenance

#: Edges for each node of the generated graphs.
EDGES_PER_NODE = 10
SAMPLE_SECONDS = 1.0
ENGINES = ("duckdb", "polars", "arrow")
#: Formats of the ingested table, and the part of the results that has each.
FORMATS: dict[str, Literal["ingestion", "csv"]] = {"parquet": "ingestion", "csv": "csv"}
TITLES = {"parquet": "Parquet", "csv": "CSV"}


class Measured(TypedDict):
    """One process: its time, the time of its processors, its peak memory, and its memory over time in GiB."""

    seconds: float
    cpu_seconds: float
    peak_gib: float
    memory: list[tuple[float, float]]


class EngineRow(Measured):
    """One engine on the heart of the task."""

    engine: str
    version: str
    edges: int
    pairs: int


class IngestRow(Measured):
    """One whole ingestion, and the seconds at which each of its stages began."""

    edges: int
    nodes: int
    pairs: int
    input_bytes: int
    output_bytes: int
    stages: list[tuple[str, float]]


class Origin(TypedDict):
    """When and how a part of the results was measured."""

    date: str
    commit: str | None
    command: str
    load: float | None  # None: not recorded


class Ingestion(Provenance):
    """The results of the benchmark. ``origins`` has the origin of each part, since they can be measured separately."""

    command: str
    protocol: str
    load: float  # of the machine before the start; above the number of cores, programs wait for each other
    cores: int
    libraries: dict[str, str]
    engines: list[EngineRow]
    ingestion: IngestRow | None  # from Parquet
    csv: IngestRow | None  # the same edges from CSV
    origins: dict[str, Origin]


def ingestion(
    edges: int,
    engine_edges: int,
    folder: Path | None = None,
    memory: float = 4.0,
    formats: tuple[str, ...] = tuple(FORMATS),
) -> Ingestion:
    """Compare the engines, and ingest a generated graph.

    Args:
        edges: number of edges of the graph to ingest; 0 leaves it out.
        engine_edges: number of edges for the comparison of engines; 0 leaves it out.
        folder: where the tables and graphs are written; a temporary folder by default.
        memory: GiB that the ingestion may use.
        formats: formats of the table to ingest, ``"parquet"`` or ``"csv"``.
    """
    options = f"--edges {edges} --engine-edges {engine_edges} --memory {memory:g} --formats {' '.join(formats)}"
    result = Ingestion(
        **provenance("cpu"),
        command=f"python -m benchmarks ingest {options}",
        protocol="edges between uniform targets and skewed sources, ids of text (user_123); engines: from Parquet with "
        "text ids to sorted distinct pairs of node numbers; peak memory is the largest resident set of the process, "
        "with the interpreter and its libraries",
        load=round(os.getloadavg()[0], 1),
        cores=os.cpu_count() or 1,
        libraries={name: version(name) for name in ("duckdb", "polars", "pyarrow", "numpy")},
        engines=[],
        ingestion=None,
        csv=None,
        origins={},
    )
    origin = Origin(date=result["date"], commit=result["commit"], command=result["command"], load=result["load"])
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        if engine_edges:
            table = write_edges(place / "engines.parquet", engine_edges)
            for engine in ENGINES:
                result["engines"].append(_engine_row(engine, table, engine_edges, place))
                print({key: value for key, value in result["engines"][-1].items() if key != "memory"}, flush=True)
            table.unlink()
            result["origins"]["engines"] = origin
        for suffix in formats if edges else ():
            part = FORMATS[suffix]
            result[part] = _ingest_row(edges, place, memory, suffix)
            result["origins"][part] = origin
    return result


def merged(result: Ingestion, path: Path) -> Ingestion:
    """Return a result with the part that it leaves out taken from an earlier one in a file, with its origin."""
    if path.is_file():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        result["engines"] = result["engines"] or earlier["engines"]
        for part in FORMATS.values():
            result[part] = result[part] or earlier.get(part)
        result["origins"] = earlier["origins"] | result["origins"]
    return result


def table(result: Ingestion) -> str:
    """Return the stages of the ingestions, and the engines, as Markdown."""
    rows = {name: row for name, part in FORMATS.items() if (row := result[part]) is not None}
    parts = [_ingestion_table(rows, result)] if rows else []
    if result["engines"]:
        lines = ["| engine | version | CPU seconds | seconds | peak memory, GiB |", "|---|---|--:|--:|--:|"]
        lines += [
            f"| {each['engine']} | {each['version']} | {each['cpu_seconds']:,.0f} | {each['seconds']:,.0f} | "
            f"{each['peak_gib']:.2f} |"
            for each in result["engines"]
        ]
        edges = f"{result['engines'][0]['edges'] / 1e6:,.0f} million edges"
        title = f"*{edges}, from text ids to sorted pairs of node numbers*"
        parts.append("\n".join([title, "", *lines, "", _when(result, "engines") + "."]))
    return "\n\n".join(parts) + "\n"


def _ingestion_table(rows: dict[str, IngestRow], result: Ingestion) -> str:
    """Return the sizes, stages and costs of the ingestions, one column per format."""
    first = next(iter(rows.values()))
    sizes = f"{first['edges'] / 1e6:,.0f} million edges with text ids, {first['nodes'] / 1e6:,.0f} million nodes"
    lines = [f"| | {' | '.join(f'from {TITLES[name]}' for name in rows)} |", "|---|" + "--:|" * len(rows)]

    def add(words: str, cell: Callable[[IngestRow], str]) -> None:
        lines.append(f"| {words} | {' | '.join(cell(row) for row in rows.values())} |")

    add("size of the table", lambda row: f"{row['input_bytes'] / 1e9:.1f} GB")
    add("size of the graph", lambda row: f"{row['output_bytes'] / 1e9:.1f} GB")
    add("peak memory", lambda row: f"{row['peak_gib']:.2f} GiB")
    add("CPU time", lambda row: f"{row['cpu_seconds']:,.0f} s")
    add("time", lambda row: f"{row['seconds']:,.0f} s")
    for place, (words, _) in enumerate(first["stages"][:-1]):
        add(f"— {words}", lambda row, k=place: f"{row['stages'][k + 1][1] - row['stages'][k][1]:,.0f} s")
    when = "; ".join(f"{TITLES[name]}: {_when(result, FORMATS[name])}" for name in rows)
    return "\n".join([f"*{sizes}*", "", *lines, "", f"{when}."])


def _when(result: Ingestion, part: str) -> str:
    """Return when a part was measured, and beside how much other work."""
    origin = result["origins"][part]
    load, cores = origin["load"], result["cores"]
    words = "beside other programs" if load is None else f"at a load of {load:g} on {cores} cores"
    return f"{origin['date'][:10]}, {words}"


def write_edges(path: Path, edges: int, seed: int = 0) -> Path:
    """Write random edges with text ids to a Parquet or CSV file, part by part."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv
    from pyarrow import parquet as pq

    rng, nodes = np.random.default_rng(seed), max(edges // EDGES_PER_NODE, 2)
    schema = pa.schema([("source", pa.string()), ("target", pa.string())])
    with (csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter)(path, schema) as writer:
        for start in range(0, edges, 1_000_000):
            count = min(1_000_000, edges - start)
            skewed = (rng.random(count) ** 2 * nodes).astype(np.int64) * 7919 % nodes
            columns = [
                pc.binary_join_element_wise("user_", pa.array(ends).cast(pa.string()), "")
                for ends in (skewed, rng.integers(0, nodes, count))
            ]
            writer.write_table(pa.table(columns, schema=schema))
    return path


def measured(arguments: list[str]) -> tuple[Measured, dict]:
    """Run ``python -m benchmarks.ingest ...`` and return its measurements, and the JSON that it prints last."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ingest", *arguments], stdout=subprocess.PIPE, text=True
    )
    memory: list[tuple[float, float]] = []
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_SECONDS):
            resident = resident_memory(process.pid)
            if resident is not None:
                memory.append((round(time.perf_counter() - start, 1), round(resident / 2**30, 3)))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    output, _ = process.communicate()
    done.set()
    thread.join()
    if process.returncode:
        raise InputError(f"benchmarks.ingest {' '.join(arguments)}: failed with code {process.returncode}; see above")
    answer = json.loads(output.splitlines()[-1])
    row = Measured(
        seconds=round(time.perf_counter() - start, 1),
        cpu_seconds=round(answer.pop("cpu_seconds"), 1),
        peak_gib=round(answer.pop("peak_gib"), 3),
        memory=memory,
    )
    return row, answer


def _engine_row(engine: str, table: Path, edges: int, folder: Path) -> EngineRow:
    row, answer = measured(["engine", engine, str(table), str(folder)])
    package = {"arrow": "pyarrow"}.get(engine, engine)
    return EngineRow(**row, engine=engine, version=version(package), edges=edges, pairs=answer["pairs"])


def _ingest_row(edges: int, folder: Path, memory: float, suffix: str) -> IngestRow:
    table = write_edges(folder / f"edges.{suffix}", edges)
    row, answer = measured(["ingest", str(table), str(folder / suffix), str(memory)])
    size = table.stat().st_size
    table.unlink()
    return IngestRow(**row, edges=edges, input_bytes=size, **answer)


# ---- The measured processes


def main() -> None:
    """Run one measured job and print what it found as JSON."""
    import resource

    job, *arguments = sys.argv[1:]
    answer = _ingest(*arguments) if job == "ingest" else {"pairs": _JOBS[arguments[0]](*arguments[1:])}
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({**answer, "cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_gib": peak_memory_gib("cpu")}))


def _ingest(table: str, out: str, memory: str) -> dict:
    from epagcl.data import ingest

    start, stages = time.perf_counter(), []

    def report(words: str, share: float | None) -> None:
        if share is None:
            stages.append((words, round(time.perf_counter() - start, 1)))
            print(*stages[-1], file=sys.stderr, flush=True)

    graph = ingest(table, out, memory=float(memory), progress=report)
    size = sum(entry["bytes"] for entry in graph.manifest["arrays"].values())
    return {"nodes": graph.num_nodes, "pairs": graph.num_edges, "output_bytes": size, "stages": stages}


def _by_duckdb(table: str, folder: str) -> int:
    import duckdb

    db = duckdb.connect(config={"memory_limit": "2GB", "temp_directory": f"{folder}/spill"})
    db.execute("SET preserve_insertion_order = false")
    db.execute(
        f"CREATE TEMP TABLE r AS SELECT file_row_number AS row, * FROM read_parquet('{table}', file_row_number=true)"
    )
    ends = "SELECT source AS id, 2 * row AS p FROM r UNION ALL SELECT target, 2 * row + 1 FROM r"
    first = f"SELECT id, min(p) AS first FROM ({ends}) GROUP BY id"
    db.execute(f"CREATE TEMP TABLE ids AS SELECT id, row_number() OVER (ORDER BY first) - 1 AS node FROM ({first})")
    joined = "FROM r JOIN ids a ON r.source = a.id JOIN ids b ON r.target = b.id WHERE a.node <> b.node"
    pairs = f"SELECT DISTINCT least(a.node, b.node) AS i, greatest(a.node, b.node) AS j {joined} ORDER BY i, j"
    return sum(batch.num_rows for batch in db.sql(pairs).to_arrow_reader(1_000_000))


def _by_polars(table: str, folder: str) -> int:
    import polars as pl

    rows = pl.scan_parquet(table).with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    ends = [rows.select(id="source", p=pl.col("row") * 2), rows.select(id="target", p=pl.col("row") * 2 + 1)]
    first = pl.concat(ends).group_by("id").agg(pl.col("p").min()).collect(engine="streaming")
    ids = first.sort("p").with_row_index("node").select("id", "node").lazy()
    joined = rows.join(ids, left_on="source", right_on="id").join(ids, left_on="target", right_on="id", suffix="_2")
    pairs = joined.select(i=pl.min_horizontal("node", "node_2"), j=pl.max_horizontal("node", "node_2"))
    out = f"{folder}/pairs.parquet"
    pairs.filter(pl.col("i") != pl.col("j")).unique().sort("i", "j").sink_parquet(out, engine="streaming")
    return int(pl.scan_parquet(out).select(pl.len()).collect().item())


def _by_arrow(table: str, folder: str) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    rows = pq.read_table(table)
    ends = pa.chunked_array([*rows["source"].chunks, *rows["target"].chunks]).combine_chunks()
    codes = ends.dictionary_encode().indices.to_numpy()
    del ends
    # The codes of sources come first. Numbers by first appearance, row by row, need one more step.
    count = len(rows)
    order = np.stack([codes[:count], codes[count:]], axis=1).ravel()
    _, first = np.unique(order, return_index=True)
    node = np.empty(len(first), dtype=np.int64)
    node[np.argsort(first, kind="stable")] = np.arange(len(first))
    source, target = node[codes[:count]], node[codes[count:]]
    low, high = np.minimum(source, target), np.maximum(source, target)
    keys = (low * len(node) + high)[low != high]
    keys.sort()
    return int(pc.sum(pa.array(np.concatenate([[True], keys[1:] != keys[:-1]]))).as_py())


_JOBS = {"duckdb": _by_duckdb, "polars": _by_polars, "arrow": _by_arrow}


if __name__ == "__main__":
    main()
