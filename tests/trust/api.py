"""The public functions and estimators on odd graphs, arrays and settings, drawn by Hypothesis."""

import copy
import resource
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import epagcl
from epagcl.core.log import log
from tests.trust.cases import Tally, attempt
from tests.trust.odd_values import graphs, labels, matrices, numbers, pairs, words

Draw = Callable[[st.SearchStrategy[Any]], Any]
SMALL = {"epochs": 1, "hidden": 4, "dim": 4, "projection": 4, "gate_hidden": 4, "predictor": 4, "device": "cpu"}
#: Most memory of the process, in bytes.
MEMORY = 10 * 2**30
#: Settings whose large values only take time: they are requests, not mistakes.
COUNTS = ("epochs", "rounds", "members", "code_probes", "negatives", "layers", "heads", "out_heads", "edge_pairs")


def fuzz_api(folder: Path, cases: int, seed: int) -> Tally:
    """Call public functions and estimators ``cases`` times on odd values, by Hypothesis.

    A call returns a result that makes sense, or raises one of the package's errors, in one line. It changes neither
    its arguments nor the global random generators, and warns only through the logger.

    Args:
        folder: an empty folder.
        cases: number of cases.
        seed: seed of the values.
    """
    tally = Tally(seed)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))  # a call that needs more fails, not the machine
    calls = _calls()
    level = log.level
    log.setLevel("CRITICAL")
    try:
        for name, make in calls.items():
            _call(tally, name, make, -(-cases // len(calls)))
    finally:
        log.setLevel(level)
    tally.details = {"fuzzer": "Hypothesis", "functions": len(calls)}
    return tally


def _call(tally: Tally, name: str, make: Callable[[Draw], Any], cases: int) -> None:
    """Call one function a number of times."""

    @hypothesis.seed(tally.seed)
    @settings(
        max_examples=cases, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )
    @hypothesis.given(st.data())
    def call(data: st.DataObject) -> None:
        function, arguments = make(data.draw)
        attempt(tally, name, lambda: _check(function, arguments), about=lambda: f"{name}{_shown(arguments)}")

    call()


def _check(function: Callable[..., object], arguments: dict[str, Any]) -> None:
    """Call a function, and raise if it changed its arguments or the state of a global generator, or warned."""
    before, generators = _copied(arguments), _generators()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            function(**arguments)
    finally:
        assert _same(before, arguments), "an argument was changed"
        assert _same(generators, _generators()), "a global random generator was used"


def _generators() -> dict[str, Any]:
    """Return the states of the global random generators."""
    state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002  (the global one)
    return {"torch": torch.get_rng_state(), "numpy": dict(state)}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return value.clone() if isinstance(value, torch.Tensor | Data) else copy.copy(value)


def _same(one: Any, two: Any) -> bool:
    """Return whether two arguments are equal, bit by bit."""
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    if isinstance(one, Data):
        return _same(one.to_dict(), two.to_dict())
    if isinstance(one, torch.Tensor):
        if one.layout != two.layout or one.dtype != two.dtype:
            return False
        return _same(_plain(one), _plain(two))
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    return type(one) is type(two) and (one == two or one is two or repr(one) == repr(two))


def _shown(arguments: dict[str, Any]) -> str:
    return str({key: value.to_dict() if isinstance(value, Data) else value for key, value in arguments.items()})[:900]


def _calls() -> dict[str, Callable[[Draw], tuple[Callable[..., object], dict[str, Any]]]]:
    """Return for each name a function that draws a call: the function and its arguments."""
    counts, shares, seeds = numbers(1, 3), numbers(0.1, 0.5, 1.0), numbers(0, 1)

    def drawn(function: Callable[..., object], **strategies: st.SearchStrategy[Any]) -> Callable[[Draw], Any]:
        def make(draw: Draw) -> tuple[Callable[..., object], dict[str, Any]]:
            return function, {key: draw(strategy) for key, strategy in strategies.items()}

        return make

    y, z, ends = labels(), matrices(), pairs()
    chosen = {
        "error_passing_rate": drawn(
            _rate, edge_index=ends, y=y, per=words("node", "edge"), self_loops=st.booleans(), hops=counts
        ),
        "epr_change": drawn(epagcl.epr_change, edge_index=ends, y=y, pairs=ends, self_loops=st.booleans()),
        "epr_change_predicted": drawn(epagcl.epr_change_predicted, edge_index=ends, y=y, pairs=ends),
        "epr_summary": drawn(epagcl.epr.epr_summary, edge_index=ends, y=y, top=numbers(0, 3)),
        "edge_probabilities": drawn(
            _probabilities, edge_index=ends, num_nodes=numbers(6, 12), p_drop=shares, p_add=shares, seed=seeds,
            drop=words("eq9", "uniform"), add=words("eq9", "uniform"),
        ),
        "info_nce": drawn(_loss, z1=z, z2=z, temperature=shares),
        "linear_evaluation": drawn(
            epagcl.linear_evaluation, z=z, y=y, protocol=words("strict"), runs=counts, seed=seeds
        ),
        "knn_accuracy": drawn(epagcl.evaluation.knn_accuracy, z=z, y=y, runs=counts, seed=seeds),
        "clustering": drawn(epagcl.evaluation.clustering, z=z, y=y, seed=seeds),
        "cluster": drawn(
            epagcl.cluster, z=z, k=numbers("auto", 2), method=words("kmeans", "hdbscan"),
            min_size=numbers(None, 2), seed=seeds,
        ),
        "classify": drawn(epagcl.classify, z=z, y=y, curve=st.booleans(), seed=seeds),
        "anomaly_scores": drawn(
            epagcl.anomaly_scores, z=z, edge_index=st.none() | ends, x=st.none() | z, density=words("lof", "knn"),
            k=counts, seed=seeds,
        ),
        "nearest_neighbours": drawn(
            _neighbours, z=z, k=counts, metric=words("cosine", "euclidean"), index=words("exact"),
            nodes=st.none() | st.lists(st.integers(-3, 20), max_size=4),
        ),
        "align": drawn(epagcl.align, z=z, previous=z),
        "drift": drawn(epagcl.drift, z=z, previous=z, aligned=st.booleans()),
        "effective_rank": drawn(epagcl.health.effective_rank, z=z),
        "uniformity": drawn(epagcl.health.uniformity, z=z),
        "structural_features": drawn(
            epagcl.structural_features, graph=graphs(), dim=numbers(2, 4), seed=seeds,
        ),
        "check": drawn(epagcl.data.check, data=graphs(), quiet=st.booleans(), features=st.booleans()),
        "random_split": drawn(epagcl.data.random_split, y=y, seed=seeds, stratified=st.booleans()),
        "recommend": drawn(epagcl.recommend, data=graphs(), device=words("cpu"), seconds=numbers(1.0, 3600.0)),
        "plan": drawn(
            epagcl.plan, nodes=numbers(10, 10**6), edges=numbers(10, 10**7), features=numbers(10, 1000),
            method=words("epagcl+", "grace"), gpus=counts, memory=numbers(None, 4.0), device=words("cpu", "h200"),
        ),
        "from_tables": drawn(
            epagcl.from_tables, edges=ends.map(_rows), features=z.map(_plain), labels=st.none() | y.map(_plain),
            directed=words(None, "both"), bipartite=st.booleans(),
        ),
        "from_scipy": drawn(
            _from_dense, adjacency=z.map(_plain), features=z.map(_plain), labels=st.none() | y.map(_plain)
        ),
        "block_model": drawn(
            epagcl.data.block_model, num_nodes=numbers(2, 20), num_classes=counts, average_degree=numbers(1.0, 3.0),
            num_features=numbers(6, 12), topic_words=numbers(2, 3), words_per_node=counts, homophily=shares,
        ),
        "predict_links": lambda draw: (
            epagcl.predict_links,
            {"data": draw(graphs()), "method": epagcl.method("grace")(**_known("grace", SMALL)), "seed": draw(seeds)},
        ),
        "EdgePerturbation": drawn(_perturbed, data=graphs(), p_drop=shares, p_add=shares, seed=seeds),
        "FeatureMask": drawn(_masked, data=graphs(), p=shares, seed=seeds),
    }  # fmt: skip
    for name in epagcl.methods():
        chosen[f"{epagcl.method(name).__name__} settings"] = _with_settings(name)
        chosen[f"{epagcl.method(name).__name__} graphs"] = _with_graphs(name)
    return chosen


def _known(name: str, values: dict[str, Any]) -> dict[str, Any]:
    fields = {field.name for field in epagcl.method(name).setting_fields()}
    return {key: value for key, value in values.items() if key in fields}


def _with_settings(name: str) -> Callable[[Draw], tuple[Callable[..., object], dict[str, Any]]]:
    """Draw one to three settings of a method, to be trained on a valid graph."""
    data = epagcl.data.block_model(24, num_classes=3, num_features=12, topic_words=4, words_per_node=3)

    def make(draw: Draw) -> tuple[Callable[..., object], dict[str, Any]]:
        changed = {}
        for field in draw(st.lists(st.sampled_from(epagcl.method(name).setting_fields()), min_size=1, max_size=3)):
            values = (field.default, *field.metadata.get("choices", ())) if field.name not in SMALL else (1, 2)
            changed[field.name] = draw(numbers(*values, huge=field.name not in COUNTS, types=True))
        return _trained, {"name": name, "changed": {**_known(name, SMALL), **changed}, "data": data}

    return make


def _with_graphs(name: str) -> Callable[[Draw], tuple[Callable[..., object], dict[str, Any]]]:
    """Draw a graph for a method with small settings."""

    def make(draw: Draw) -> tuple[Callable[..., object], dict[str, Any]]:
        return _trained, {"name": name, "changed": _known(name, SMALL), "data": draw(graphs())}

    return make


def _trained(name: str, changed: dict[str, Any], data: Data) -> None:
    """Train a method. Its embedding has a finite row per node."""
    cls = epagcl.method(name)
    model = cls(**changed)
    if cls.supervised:
        model.fit(data, split=epagcl.data.random_split(data.y, seed=0))
    else:
        model.fit(data)
    z = model.embed(data)
    assert z.shape[0] == data.num_nodes, (z.shape, data)
    assert z.dtype == torch.float32
    assert bool(z.isfinite().all()), "the embedding is not finite"
    if not cls.supervised:
        model.health(data)


def _rate(**arguments: Any) -> None:
    rate = float(epagcl.error_passing_rate(**arguments))
    assert rate != rate or -1e-9 <= rate <= 1 + 1e-9, rate


def _probabilities(**arguments: Any) -> None:
    found = epagcl.edge_probabilities(**arguments)
    for values, ends in ((found.drop, found.pairs), (found.add, found.candidates)):
        assert values.shape[0] == ends.shape[1]
        assert bool(((values >= 0) & (values <= 1)).all()), values
        assert bool((ends[0] < ends[1]).all())


def _loss(**arguments: Any) -> None:
    loss = epagcl.info_nce(**arguments)
    finite = all(bool(arguments[name].isfinite().all()) for name in ("z1", "z2"))
    assert not finite or bool(loss.isfinite()), loss


def _neighbours(**arguments: Any) -> None:
    found = epagcl.nearest_neighbours(**arguments)
    assert len(found.nodes) == len(found.scores)


def _from_dense(adjacency: Any, features: Any, labels: Any) -> None:
    import scipy.sparse

    epagcl.from_scipy(scipy.sparse.csr_array(np.asarray(adjacency, np.float32)), features, labels)


def _perturbed(data: Data, **arguments: Any) -> None:
    epagcl.transforms.EdgePerturbation(**arguments)(data)


def _masked(data: Data, **arguments: Any) -> None:
    epagcl.transforms.FeatureMask(**arguments)(data)


def _plain(value: Any) -> Any:
    """Return a tensor as an array, and anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    dense = (value.to_dense() if value.layout != torch.strided else value).detach()
    return (dense.float() if dense.dtype is torch.bfloat16 else dense).numpy()


def _rows(ends: Any) -> Any:
    ends = _plain(ends)
    return ends.T if isinstance(ends, np.ndarray) and ends.ndim == 2 and ends.shape[0] == 2 else ends
