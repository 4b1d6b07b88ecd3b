"""Sensitivity: EPAGCL and EPAGCL+ with one setting changed at a time, and training seeds against splits.

Nothing is chosen here. Every value of every sweep is reported, with the test accuracy of the strict protocol.
"""

from dataclasses import replace

from epagcl.paper.artefact import Artefact, Request, Result
from epagcl.paper.sensitivity.crossed import crossed_runs, measure_crossed
from epagcl.paper.sensitivity.reading import reading
from epagcl.paper.sensitivity.settings import METHODS, SEEDS, sweep_rows
from epagcl.paper.sensitivity.sweeps import PROTOCOL
from epagcl.paper.sensitivity.tables import figures, tables
from epagcl.study.comparison import fill
from epagcl.study.design import Cell
from epagcl.study.paired_test import FEWEST

#: Graphs in the order in which they are computed.
GRAPHS = ("Cora", "Chameleon", "CiteSeer")


def measure(request: Request) -> Result:
    """Measure the crossed design of seeds and splits, then every value of every sweep."""
    crossed, wanted = measure_crossed(crossed_runs(request), request), cells_of(request)
    if request.train:
        # The seeds that an error needs come first, so that a measurement that is stopped early can be read.
        first = [replace(cell, seeds=min(FEWEST, cell.seeds)) for cell in wanted]
        fill([*first, *wanted], request.store, request.work)
    return {"crossed": crossed, **request.runs_of(wanted)}


def cells_of(request: Request) -> list[Cell]:
    """Return the cells of the sweeps, graph by graph."""
    return request.cells(lambda name, _: sweep_rows(name, request.methods, request.settings))


ARTEFACT = Artefact(
    name="sensitivity",
    title="What matters: settings, seeds and splits",
    datasets=GRAPHS,
    methods=METHODS,
    runs=SEEDS,
    protocols=(PROTOCOL,),
    measure=measure,
    cells=cells_of,
    tables=tables,
    figures=figures,
    reading=reading,
)
