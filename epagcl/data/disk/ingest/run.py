"""The ingestion of tables of any size to a graph on disk: :func:`ingest`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from epagcl.core.errors import InputError
from epagcl.core.files import check_space
from epagcl.core.formatting import counted
from epagcl.data.disk.graph import OnDiskGraph, claim_folder, new_manifest
from epagcl.data.disk.ingest.adjacency import ENDS, WEIGHTS, log_repairs, write_csr, write_ends
from epagcl.data.disk.ingest.edge_rows import ROWS, EdgeSource, edge_source, judge_bad_rows, refuse_kinds, write_rows
from epagcl.data.disk.ingest.features import (
    LABELS,
    FeatureTable,
    compared_ids,
    listed_of,
    scan_features,
    write_features,
)
from epagcl.data.disk.ingest.ids import EDGE_IDS, IdSummary, Listed, with_kinds, write_edge_ids, write_listed
from epagcl.data.disk.ingest.labels import LABEL_ROWS, LabelTable, listed_labels, scan_labels, write_labels
from epagcl.data.disk.ingest.node_tables import block_values, blocks
from epagcl.data.disk.ingest.nodes import MAPPING, NodeParts, number_nodes, write_ids
from epagcl.data.disk.ingest.work import Report, Work, opened_work, require_engine, was_finished
from epagcl.data.disk.layout import MANIFEST, VERSION, write_manifest
from epagcl.data.io.columns.encoding import TableEncoding
from epagcl.data.io.ids import ID_NAMES
from epagcl.data.io.roles import Roles
from epagcl.data.io.tables.base import Table, normalised_name
from epagcl.data.io.tables.files import existing_file
from epagcl.data.io.tables.text import TextTable
from epagcl.data.structural.features import split_preset

BAD_ROWS = ("refuse", "skip")
#: Bytes of the work and of the result for each byte of the edges, and for each byte of the features, roughly.
_SPACE_OF_EDGES, _SPACE_OF_FEATURES, _SPACE_OF_PARQUET = 4.0, 1.5, 8.0
LEAST_MEMORY = 1.0


def ingest(
    edges: Path | str,
    out: Path | str,
    *,
    features: Path | str | None = None,
    labels: Path | str | None = None,
    nodes: Path | str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    id: str | None = None,
    label: str | None = None,
    bipartite: bool = False,
    columns_as: Mapping[str, str] | None = None,
    encoding: TableEncoding | None = None,
    bad_rows: str = "refuse",
    name: str | None = None,
    memory: float = 4.0,
    overwrite: bool = False,
    progress: Report | None = None,
) -> OnDiskGraph:
    """Write tables of any size to a graph on disk, in bounded memory, by the rules of :func:`epagcl.read_graph`.

    An ingestion that was stopped continues after its last finished stage when it is started again with the same
    arguments. The nodes, their order and their features are those that :func:`epagcl.read_graph` gives, with these
    exceptions, which concern tables that do not fit in memory. The columns of a table of features with more than ten
    million cells are judged by rows that are evenly spread over it. A column of ids is found by its name, or by the
    first rows. Quoted fields of an edge list do not span lines.

    Args:
        edges: a table of edges: ``.parquet``, or text (``.csv``, ``.tsv``, ``.txt``, each also with ``.gz``).
        out: the folder of the graph, new or empty, or with an ingestion that was stopped.
        features: a table, or ``.npy`` or ``.npz``.
        labels: a table (id, label), one column, or ``.npy``.
        nodes: the ids of the feature rows, if the features have none.
        source: column of the edges with the first end; in a table without header, its number from 1.
        target: column of the edges with the second end.
        weight: column of the edges with their weights; ``"none"`` uses no weights.
        id: column with the ids, of each other table that has it.
        label: column with the labels, of ``labels`` or else of ``features``.
        bipartite: the ends of an edge are nodes of two kinds, whose ids do not merge.
        columns_as: kinds of feature columns by name, in place of the detected ones.
        encoding: that of a trained model (``model.encoding_``), so that the model can embed the graph; None: a new one.
        bad_rows: ``"refuse"`` raises if a row of the edges has no source or target, a weight that is not a number, or
            cannot be read; ``"skip"`` leaves such rows out. Both say how many there are, and where the first are.
        name: name of the graph in results; by default that of the folder.
        memory: GiB of memory that the process may use, roughly; at least 1.
        overwrite: replace a graph in this folder.
        progress: called with the words of the current stage and the share of it that is done, None if unknown.

    Returns:
        The graph, opened.

    Raises:
        InputError: if a table is wrong.
        OutputError: if the folder cannot be written, or its disk has too little space.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     edges = Path(folder, "e.csv")
        ...     _ = edges.write_text("source,target\\nann,bob\\nbob,eve\\nbob,ann\\n")
        ...     graph = ingest(edges, Path(folder, "graph"))
        ...     graph.num_nodes, graph.num_edges, graph.ids.tolist()
        (3, 2, ['ann', 'bob', 'eve'])
    """
    roles = Roles(source, target, id, label, bipartite, columns_as or {}, encoding, weight=weight)
    files = {"edges": edges, "features": features, "labels": labels, "nodes": nodes}
    return ingest_files(files, Path(out), roles, bad_rows, name, memory, overwrite=overwrite, report=progress)


class Inputs(NamedTuple):
    """The files of a graph, and how to read them."""

    edges: Path
    features: Path | None
    labels: Path | None
    nodes: Path | None
    roles: Roles
    bad_rows: str

    def record(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain values. A changed file has another size or time."""
        files = {part: getattr(self, part) for part in ("edges", "features", "labels", "nodes")}
        states = {part: (file, file.stat()) for part, file in files.items() if file is not None}
        encoding = self.roles.encoding
        return {
            **({} if encoding is None else {"encoding": encoding.to_dict()}),
            "version": VERSION,
            "files": {part: [str(file.resolve()), s.st_size, s.st_mtime_ns] for part, (file, s) in states.items()},
            "roles": self.roles.record(),
            "bad_rows": self.bad_rows,
        }

    @property
    def source(self) -> dict[str, str | bool]:
        """The files and columns, for the manifest."""
        files = {part: getattr(self, part) for part in ("edges", "features", "labels", "nodes")}
        return {**{part: str(file) for part, file in files.items() if file is not None}, **self.roles.record()}


def ingest_files(
    files: Mapping[str, Path | str | None],
    out: Path,
    roles: Roles,
    bad_rows: str = "refuse",
    name: str | None = None,
    memory: float = 4.0,
    *,
    overwrite: bool = False,
    report: Report | None = None,
) -> OnDiskGraph:
    """Ingest as :func:`ingest` does, with argument names in messages formatted for the caller.

    Args:
        files: the files of ``edges``, ``features``, ``labels`` and ``nodes``; absent or None if not given.
        out: the folder of the graph.
        roles: the columns that the user names, and how messages write arguments.
        bad_rows: refuse or skip.
        name: name of the graph in results.
        memory: GiB of memory.
        overwrite: replace a graph in this folder.
        report: called with the progress.
    """
    require_engine()
    inputs = _checked(files, roles, bad_rows, memory)
    if was_finished(out, inputs.record()) and not overwrite:
        return OnDiskGraph.open(out)
    claim_folder(out, overwrite=overwrite, keep_work=not (out / MANIFEST).exists())
    check_space(out, _needed(inputs))
    with opened_work(out, inputs.record(), int(memory * 2**30), report or (lambda words, share: None)) as work:
        _run(inputs, name or out.resolve().name, work)
    return OnDiskGraph.open(out)


def _checked(files: Mapping[str, Path | str | None], roles: Roles, bad_rows: str, memory: float) -> Inputs:
    """Return the inputs. Raise if a file or an option is wrong."""
    if bad_rows not in BAD_ROWS:
        raise InputError(f"{roles.write(bad_rows=bad_rows)}: must be {' or '.join(BAD_ROWS)}")
    if memory < LEAST_MEMORY:
        raise InputError(f"{roles.write(memory=f'{memory:g}')}: must be at least {LEAST_MEMORY:g} GiB")
    refuse_kinds(roles)
    if files.get("edges") is None:
        raise InputError(f"no edges given; give {roles.name_of('edges')}")
    preset, _ = split_preset(files.get("features"))
    if preset is not None:
        fix = "leave it out here, and give it to the command that reads the graph"
        raise InputError(f"{roles.write(features=preset)}: is computed from the edges; {fix}")
    given = {part: None if file is None else existing_file(file) for part, file in files.items()}
    edges = given["edges"]
    assert edges is not None
    inputs = Inputs(edges, given.get("features"), given.get("labels"), given.get("nodes"), roles, bad_rows)
    if roles.label is not None and inputs.labels is None and inputs.features is None:
        fix = f"give the labels as {roles.name_of('labels')}, or features with this column"
        raise InputError(f"{roles.name_of('label')} {roles.label}: no table has labels; {fix}")
    return inputs


def _needed(inputs: Inputs) -> int:
    """Return the bytes that will be written, roughly: rows, spilled groups, node numbers, and the result."""
    size = inputs.edges.stat().st_size
    factor = _SPACE_OF_EDGES if inputs.edges.suffix.lower() not in (".parquet", ".gz") else _SPACE_OF_PARQUET
    features = 0 if inputs.features is None else inputs.features.stat().st_size
    return int(size * factor + features * _SPACE_OF_FEATURES)


def _run(inputs: Inputs, name: str, work: Work) -> None:
    """Run the stages that are not finished, and write the manifest."""
    roles = inputs.roles
    source = edge_source(inputs.edges, roles)
    rows = work.stage("rows", "reading the edges", lambda: write_rows(source, work))
    judge_bad_rows(rows, source, roles, inputs.bad_rows)
    found = work.stage("ids", "finding the distinct ids", lambda: write_edge_ids(source, rows["integers"], roles, work))
    features, labels, parts = _node_parts(inputs, source, found, work)
    nodes = roles.name_of("nodes")
    numbered = work.stage("nodes", "numbering the nodes", lambda: number_nodes(source, found, parts, nodes, work))
    work.stage("node-ids", "writing the ids", lambda: write_ids(numbered, work))
    weighted, two = source.weight is not None, source.kinds is not None
    words = "replacing ids by numbers"
    ends = work.stage("ends", words, lambda: write_ends(rows["rows"], numbered, two, weighted, work))
    work.remove(ROWS, EDGE_IDS, MAPPING)
    work.release()
    pairs = work.stage("csr", "sorting the pairs", lambda: write_csr(numbered["nodes"], weighted, work))
    work.remove(ENDS, WEIGHTS)
    log_repairs(source.path.name, ends, pairs, weighted=weighted)
    written = None
    if features is not None and inputs.features is not None:
        file, table = inputs.features, features
        written = work.stage("features", "writing the features", lambda: write_features(file, table, work))
    label_names = _write_labels(inputs, features, labels, numbered["nodes"], numbered["integers"], work)
    work.report("writing the manifest", None)
    counts = {
        "read": rows["rows"],
        "bad": rows["bad"],
        "self_loops": ends["self_loops"],
        "zero_weights": ends["zero_weights"],
        "duplicates": ends["edges"] - pairs["directed"],
    }
    encoding = None if features is None else features["encoding"]
    manifest = new_manifest(
        work.target,
        name,
        0 if written is None else written["features"],
        feature_names=None if written is None else written["names"],
        label_names=label_names,
        encoding=None if encoding is None else TableEncoding.from_dict(encoding),
        source=inputs.source,
        rows=counts,
    )
    write_manifest(manifest, work.target)


def _node_parts(
    inputs: Inputs, source: EdgeSource, found: IdSummary, work: Work
) -> tuple[FeatureTable | None, LabelTable | None, NodeParts]:
    """Read features, labels and the list of nodes once. Return them, and what they say about the nodes."""
    roles = inputs.roles
    listed = rows = labelled = None
    if (file := inputs.nodes) is not None:
        listed = Listed(
            *work.stage("node-list", "reading the nodes", lambda: _listed_nodes(file, roles, work))["listed"]
        )
    features = labels = None
    if (table := inputs.features) is not None:
        in_features = inputs.labels is None and roles.label is not None
        known = {"listed": listed is not None, "label": in_features}
        features = work.stage(
            "columns",
            "reading the features",
            lambda: scan_features(table, found, source.kinds, roles, **known, work=work),
        )
        rows = _rows_of(features, table.name, listed, roles)
    of_nodes = rows if features is not None else None
    if (label_file := inputs.labels) is not None:

        def graph_ids(block: Table) -> np.ndarray:
            if of_nodes is None:
                return compared_ids(block, found["count"], found["integers"], work)
            return compared_ids(block, of_nodes.rows, of_nodes.integers, work, of_nodes)

        labels = work.stage("label-rows", "reading the labels", lambda: scan_labels(label_file, graph_ids, roles, work))
        labelled = listed_labels(labels)
    rows = rows or listed
    if source.kinds is not None:
        kinds = source.kinds
        rows = None if rows is None else with_kinds(rows, kinds, work)
        labelled = None if labelled is None else with_kinds(labelled, kinds, work)
    unnamed = None
    if rows is None and features is not None and inputs.features is not None:
        unnamed = features["rows"], inputs.features.name
    elif rows is None and features is None and labels is not None and labelled is None and inputs.labels is not None:
        unnamed = labels["rows"], inputs.labels.name
    return features, labels, NodeParts(rows, unnamed, features is not None and rows is not None, labelled)


def _rows_of(features: FeatureTable, name: str, listed: Listed | None, roles: Roles) -> Listed | None:
    """Return the ids of the feature rows, of the table or of the list of nodes."""
    own = listed_of(features)
    if listed is None:
        return own
    if own is not None:
        argument = roles.name_of("nodes")
        fix = f"leave out {argument}, or remove the ids from the features"
        raise InputError(f"{listed.name}: {name} has ids itself; {fix}")
    if listed.rows != features["rows"]:
        counts = f"{counted(listed.rows, 'id')} for {counted(features['rows'], 'row')}"
        raise InputError(f"{listed.name}: {counts} of {name}; give one per row")
    return listed


def _listed_nodes(path: Path, roles: Roles, work: Work) -> dict[str, Any]:
    """Write the ids of a list of nodes. In ``.txt``, an id is a whole line."""

    def parts() -> Iterator[tuple[Table, np.ndarray]]:
        names = ID_NAMES if roles.id is None else (normalised_name(roles.id), *ID_NAMES)
        column, header = 0, False
        for number, block in enumerate(blocks(path)):
            whole_lines = isinstance(block, TextTable) and block.suffix == ".txt"
            if whole_lines and isinstance(block, TextTable):
                lines = block.rows_as_text()
                block.header = number == 0 and normalised_name(lines[0]) in ID_NAMES
                yield block, np.array(lines[int(block.header) :], dtype=object)
                continue
            if number == 0:
                header = block.has_header(names)
                column = (block.column(names) if header else None) or 0
            block.header = header and (number == 0 or not isinstance(block, TextTable))
            yield block, block_values(block, column)[column].to_numpy(dtype=object)

    return {"listed": list(write_listed(parts(), "node-list.parquet", work))}


def _write_labels(
    inputs: Inputs, features: FeatureTable | None, labels: LabelTable | None, nodes: int, integers: bool, work: Work
) -> list[str] | None:
    """Write the labels of their table, or of the column in the features. Return the names of the classes."""
    if labels is not None and inputs.labels is not None:
        name, rows, table = inputs.labels.name, LABEL_ROWS, labels
    elif features is not None and features["columns"] is not None and features["columns"][1] is not None:
        assert inputs.features is not None
        name, rows = inputs.features.name, LABELS
        table = LabelTable(listed=None, rows=features["rows"])
    else:
        return None
    words = "writing the labels"
    return work.stage("labels", words, lambda: write_labels(name, rows, table, nodes, integers, work))["names"]
