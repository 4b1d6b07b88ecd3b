"""The results of a comparison over several graphs: scores by row and graph, their ranking, and the file of both."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from epagcl.core.errors import InputError
from epagcl.core.files import write_json
from epagcl.report.metrics import Provenance
from epagcl.runs.record import provenance
from epagcl.study.comparison import CellResult, shares_by_seed
from epagcl.study.paired_test import PairedTest, paired_tests
from epagcl.study.ranking import Ranking, rank

#: A mean of fewer runs is not compared with others.
MIN_RUNS = 5

#: The results of each graph, in the order of the rows.
Results = Mapping[str, Sequence[CellResult]]


class Comparison(Provenance):
    """The content of the file that ``epagcl compare --save`` writes.

    ``date``, ``hardware``, ``versions`` and ``commit`` are those of the command that wrote the file. Each result has
    the hardware, dates and commits of its own runs. ``protocol`` is the one that rows are ranked by. ``ranking`` is a
    :class:`~epagcl.study.ranking.Ranking` as plain values, or None if there is none.
    """

    command: str
    seeds: int
    protocols: list[str]
    protocol: str
    results: dict[str, list[CellResult]]
    ranking: dict[str, Any] | None


def ranking_protocol(protocols: Sequence[str]) -> str:
    """Return the protocol that rows are ranked by: strict if there, else the first.

    Examples:
        >>> ranking_protocol(["paper", "strict"]), ranking_protocol(["public", "paper"])
        ('strict', 'public')
    """
    return "strict" if "strict" in protocols else protocols[0]


def compared_rows(runs: Mapping[str, int], min_runs: int = MIN_RUNS) -> set[str]:
    """Return the rows whose means are compared: those with ``min_runs`` runs, or all if no row has as many.

    Args:
        runs: the number of runs of each row on a graph.
        min_runs: the smallest number of runs.

    Examples:
        >>> sorted(compared_rows({"a": 20, "b": 5, "c": 2})), sorted(compared_rows({"a": 3, "b": 2}))
        (['a', 'b'], ['a', 'b'])
    """
    return {row for row, count in runs.items() if count >= min_runs} or set(runs)


def accuracies(results: Results, protocol: str, min_runs: int = MIN_RUNS) -> dict[str, dict[str, float]]:
    """Return the mean test accuracy of each row on each graph, in percent. Cells without results are left out.

    Args:
        results: the results of each graph.
        protocol: of the scores.
        min_runs: cells with fewer runs are left out too, unless no row on the graph has as many.

    Examples:
        >>> accuracies({"Cora": []}, "strict")
        {}
    """
    scores: dict[str, dict[str, float]] = {}
    for graph, cells in results.items():
        found = {cell["row"]: cell["protocols"][protocol] for cell in cells if protocol in cell["protocols"]}
        compared = compared_rows({row: len(one["seeds"]) for row, one in found.items()}, min_runs)
        for row, one in found.items():
            if row in compared:
                scores.setdefault(row, {})[graph] = 100 * one["accuracy"]["mean"]
    return scores


def runs_by_seed(results: Results, protocol: str) -> dict[str, dict[str, dict[int, float]]]:
    """Return the test accuracy of each row on each graph by seed, in percent.

    Examples:
        >>> runs_by_seed({"Cora": []}, "strict")
        {}
    """
    runs: dict[str, dict[str, dict[int, float]]] = {}
    for graph, cells in results.items():
        for cell in cells:
            if scores := cell["protocols"].get(protocol):
                runs.setdefault(cell["row"], {})[graph] = by_seed(scores)
    return runs


def by_seed(scores: Mapping[str, Any] | None, name: str = "accuracy") -> dict[int, float]:
    """Return the scores of a cell by one protocol by seed, in percent; nothing without scores of this name.

    Examples:
        >>> by_seed({"seeds": [3, 4], "accuracy": {"runs": [0.5, 0.75]}})
        {3: 50.0, 4: 75.0}
    """
    return {seed: 100 * run for seed, run in shares_by_seed(scores or {}, name).items()}


def paired_against(results: Results, protocol: str, title: str) -> dict[tuple[str, str], PairedTest]:
    """Test a row against every other row on each graph, on common seeds, with Holm's correction for all tests.

    Args:
        results: the results of each graph.
        protocol: of the scores.
        title: the row that is tested.

    Returns:
        The tests by graph and other row. A positive difference means that the row is better than the other.

    Examples:
        >>> paired_against({"Cora": []}, "strict", "EPAGCL+")
        {}
    """
    runs = runs_by_seed(results, protocol)
    return paired_tests(
        {
            (graph, other): (runs[title][graph], by_graph[graph])
            for other, by_graph in runs.items()
            if other != title
            for graph in by_graph
            if graph in runs.get(title, {})
        }
    )


def ranking_of(results: Results, protocol: str) -> Ranking | None:
    """Rank the rows by mean test accuracy; None unless two rows have results on the same two or more graphs.

    Rows with fewer than :data:`MIN_RUNS` runs on a graph on which others have more are not ranked. A user's graph is an
    observation of its own, whatever its name.

    Examples:
        >>> ranking_of({"Cora": []}, "strict") is None
        True
    """
    own = [graph for graph, cells in results.items() if not all(cell["named"] for cell in cells)]
    return rank(accuracies(results, protocol), own)


def summarise(results: Results, *, command: str, seeds: int, protocols: Sequence[str]) -> Comparison:
    """Return the results with their ranking and provenance.

    Args:
        results: the results of each graph.
        command: the command that computed them.
        seeds: number of seeds that were asked for.
        protocols: the protocols that were asked for.

    Examples:
        >>> comparison = summarise({"Cora": []}, command="epagcl compare cora", seeds=5, protocols=["strict"])
        >>> comparison["protocol"], comparison["ranking"]
        ('strict', None)
    """
    protocol = ranking_protocol(protocols)
    ranking = ranking_of(results, protocol)
    return {
        **provenance(),
        "command": command,
        "seeds": seeds,
        "protocols": list(protocols),
        "protocol": protocol,
        "results": {graph: list(cells) for graph, cells in results.items()},
        "ranking": None if ranking is None else asdict(ranking),
    }


def write_comparison(comparison: Comparison, path: str | Path) -> None:
    """Write a comparison as JSON. Folders are created.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> comparison = summarise({"Cora": []}, command="epagcl compare cora", seeds=5, protocols=["strict"])
        >>> with TemporaryDirectory() as folder:
        ...     write_comparison(comparison, f"{folder}/comparison.json")
        ...     read_comparison(f"{folder}/comparison.json") == comparison
        True
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(comparison, path)


def read_comparison(path: str | Path) -> Comparison:
    """Read a comparison that :func:`write_comparison` wrote.

    Examples:
        >>> read_comparison("pyproject.toml")
        Traceback (most recent call last):
        epagcl.core.errors.InputError: pyproject.toml: not a comparison; write one with `epagcl compare --save`
    """
    try:
        content: Comparison = json.loads(Path(path).read_text(encoding="utf-8"))
        content["results"], content["protocol"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path}: not a comparison; write one with `epagcl compare --save`") from None
    return content
