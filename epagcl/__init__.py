"""Label-free node embeddings: graph contrastive learning with edges added and dropped by their error passing rate."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epagcl import data, loggers, methods, transforms
    from epagcl.data import from_networkx, from_scipy, from_tables, load, read_graph
    from epagcl.epr import epr_change, epr_change_predicted, error_passing_rate
    from epagcl.evaluation import linear_evaluation
    from epagcl.losses import info_nce
    from epagcl.methods import load_model, method
    from epagcl.methods.bgrl import BGRL
    from epagcl.methods.cca_ssg import CCASSG
    from epagcl.methods.dgi import DGI
    from epagcl.methods.epagcl import EPAGCL
    from epagcl.methods.gat import SupervisedGAT
    from epagcl.methods.gca import GCA
    from epagcl.methods.gcn import SupervisedGCN
    from epagcl.methods.gmi import GMI
    from epagcl.methods.grace import GRACE
    from epagcl.methods.greet import GREET
    from epagcl.methods.mvgrl import MVGRL
    from epagcl.pipeline import NodeEmbedder
    from epagcl.tuning.study import tune
    from epagcl.views import edge_probabilities

__version__ = "0.1.0"

# Public names and their rooms. They are imported when first used: `epagcl --help` need not wait for torch.
_ROOMS = {
    "EPAGCL": "methods.epagcl",
    "BGRL": "methods.bgrl",
    "CCASSG": "methods.cca_ssg",
    "DGI": "methods.dgi",
    "GCA": "methods.gca",
    "GMI": "methods.gmi",
    "GRACE": "methods.grace",
    "GREET": "methods.greet",
    "MVGRL": "methods.mvgrl",
    "NodeEmbedder": "pipeline",
    "SupervisedGAT": "methods.gat",
    "SupervisedGCN": "methods.gcn",
    "edge_probabilities": "views",
    "epr_change": "epr",
    "epr_change_predicted": "epr",
    "error_passing_rate": "epr",
    "from_networkx": "data",
    "from_scipy": "data",
    "from_tables": "data",
    "info_nce": "losses",
    "linear_evaluation": "evaluation",
    "load": "data",
    "load_model": "methods",
    "method": "methods",
    "data": "",
    "epr": "",
    "errors": "",
    "evaluation": "",
    "health": "",
    "loggers": "",
    "losses": "",
    "methods": "",
    "report": "",
    "runs": "",
    "transforms": "",
    "tuning": "",
    "views": "",
    "tune": "tuning.study",
    "read_graph": "data",
}

__all__ = [
    "BGRL",
    "CCASSG",
    "DGI",
    "EPAGCL",
    "GCA",
    "GMI",
    "GRACE",
    "GREET",
    "MVGRL",
    "NodeEmbedder",
    "SupervisedGAT",
    "SupervisedGCN",
    "data",
    "edge_probabilities",
    "epr_change",
    "epr_change_predicted",
    "error_passing_rate",
    "from_networkx",
    "from_scipy",
    "from_tables",
    "info_nce",
    "linear_evaluation",
    "load",
    "load_model",
    "loggers",
    "method",
    "methods",
    "read_graph",
    "transforms",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = _ROOMS[name]
    if not room:  # a room itself
        return importlib.import_module(f"{__name__}.{name}")
    return getattr(importlib.import_module(f"{__name__}.{room}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
