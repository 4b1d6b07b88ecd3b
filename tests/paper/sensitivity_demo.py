"""An invented result of the study of sensitivity, with known ranges and variances."""

import numpy as np

from epagcl.evaluation.scores import spread
from epagcl.methods import method
from epagcl.paper.sensitivity.settings import METHODS, SETTINGS, read_title, sweep_rows
from tests.paper.conftest import cell, result

#: What the settings change: points between the first and the last value, by method and label.
SLOPES = {("EPAGCL", "τ"): 8.0, ("EPAGCL", "epochs"): 4.0, ("EPAGCL+", "width"): 2.0}
#: Noise of five seeds, which adds up to 0.
NOISE = (0.2, -0.2, 0.1, -0.1, 0.0)
SPLIT_EFFECTS = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
SEED_EFFECTS = {"EPAGCL": np.array([-1.0, 0.0, 1.0]), "EPAGCL+": np.array([-4.0, 0.0, 4.0])}


def mean_of(row, settings):
    """Return the accuracy of a row: linear in the place of the value, with the default in its place."""
    title, label, value = read_title(row)
    if value is None:
        return 70.0
    default = SETTINGS[label].value(settings)
    values = SETTINGS[label].values(default)
    steps = values.index(value) - values.index(default)
    return 70.0 + SLOPES.get((title, label), 0.0) * steps / (len(values) - 1)


def demo_result(graphs=("Cora", "Chameleon"), validation=True):
    """Return sweeps of both methods on some graphs, and their crossed tables of 3 seeds and 5 splits."""
    cells = []
    for shift, graph in enumerate(graphs):
        own = {name: sweep_rows(graph, [name], {})[0].models(graph, 1, {})[0][0].settings() for name in METHODS}
        for place, row in enumerate(sweep_rows(graph, METHODS, {})):
            noise = np.roll(NOISE, place)  # the seeds of different values are not alike
            mean = mean_of(row.title, own[row.method]) - 10 * shift
            one = cell(row.title, graph, list(mean + noise), settings=row.models(graph, 1, {})[0][0].settings())
            if validation:
                one["protocols"]["strict"]["validation"] = spread([(mean + 1) / 100] * len(noise))
            cells.append(one)
    crossed = [
        {
            "graph": {"name": graph, "nodes": 100, "edges": 200},
            "row": method(name).title,
            "settings": {},
            "splits": 5,
            "seeds": [0, 1, 2],
            "accuracy": ((70 + SEED_EFFECTS[method(name).title][:, None] + SPLIT_EFFECTS) / 100).tolist(),
            "seconds": [1.0] * 3,
            "hardware": ["H200"],
        }
        for graph in graphs
        for name in METHODS
    ]
    return result(cells, datasets=graphs, crossed=crossed)
