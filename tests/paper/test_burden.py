"""Table 3: FLOPs against formulas, and a small measurement from end to end."""

import json

import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.core.sparse import SparseMatrix
from epagcl.data import load
from epagcl.data.graph import Graph
from epagcl.methods import method
from epagcl.nn.encoders import GCN
from epagcl.paper import burden, costs
from epagcl.paper.artefact import Request
from epagcl.paper.burden import ARTEFACT, QUANTITIES, Subject, encoder_pass, reported_cell
from epagcl.study.store import Store

SMALL = {"hidden": 16, "dim": 8, "projection": 12, "batch_size": 0}


def test_products_are_counted():
    a, b, batch = torch.rand(5, 7), torch.rand(7, 3), torch.rand(2, 5, 7)
    sparse = SparseMatrix.from_torch(torch.eye(7).to_sparse_csr())
    for flops, product in (
        (2 * 5 * 7 * 3, lambda: a @ b),
        (2 * 5 * 7 * 3, lambda: torch.zeros(5, 3).addmm_(a, b)),
        (2 * 5 * 7 * 3, lambda: torch.nn.functional.linear(a, b.T.contiguous(), torch.zeros(3))),
        (2 * 5 * 7, lambda: a @ b[:, 0]),
        (2 * 2 * 5 * 7 * 5, lambda: torch.bmm(batch, batch.transpose(1, 2))),
        (2 * 7 * 3, lambda: sparse @ b),  # seven entries
        (0, lambda: (a * a).sum()),
    ):
        with costs.Products() as products:
            product()
        assert products.flops == flops


def test_epoch_of_grace_by_formula(small_graph):
    settings = {**SMALL, "p_drop_1": 0.0, "p_drop_2": 0.0, "p_mask_1": 0.0, "p_mask_2": 0.0}
    graph = Graph.from_data(small_graph)
    n, features, h, d, p = graph.num_nodes, graph.num_features, 16, 8, 12
    assert isinstance(graph.x, torch.Tensor)
    links = 2 * graph.pairs.shape[1] + n
    first = 2 * (2 * n * features * h)  # XW once for both views, and the gradient of W; X has none
    spread = 2 * 2 * (2 * links * (h + d))  # two views, there and back, after each layer
    second = 3 * (2 * 2 * n * h * d)  # rows of both views; gradients of H and W
    head = 3 * 2 * (2 * 2 * n * d * p)
    loss = 2 * (2 * (2 * n) ** 2 * d)  # one tile of all similarities, and its product with Z
    assert costs.flops(method("grace"), settings, small_graph) == first + spread + second + head + loss


def test_encoder_pass_by_formula():
    subject = Subject.of("demo", None)
    encoder = GCN([subject.graph.num_features, 32, 16])
    with costs.Products() as products, torch.no_grad():
        encoder(subject.graph.x, subject.graph.adjacency)
    assert products.flops == encoder_pass(subject.describe(), 32, 16)


def test_what_is_prepared_quickly_changes_no_product(small_graph, monkeypatch):
    quick = costs.flops(method("greet"), {"k": 5}, small_graph)
    monkeypatch.setattr(costs, "QUICK", {})
    assert quick == costs.flops(method("greet"), {"k": 5}, small_graph) > 0


@pytest.mark.parametrize("name", ARTEFACT.methods)
def test_every_method_is_counted(name, small_graph):
    assert costs.flops(method(name), {}, small_graph) > 0


def test_reported_flops_are_those_of_the_projection_head():
    for graph, n in (("Cora", 2708), ("PubMed", 19717), ("ogbn-arxiv", 169343)):
        assert n * (2 * 256**2 + 3 * 256) == pytest.approx(reported_cell(graph, "EPAGCL")["flops"], rel=0.002)
    assert reported_cell("ogbn-arxiv", "GREET")["seconds_before"] == "15.95 h"
    assert reported_cell("ogbn-arxiv", "MVGRL") == dict.fromkeys(QUANTITIES, "OOM")
    assert reported_cell("Cora", "GRACE") == {}


def test_out_of_memory_is_a_result(monkeypatch, small_graph):
    def fails(error: Exception):
        def raise_it(*_):
            raise error

        monkeypatch.setattr(costs, "_burden", raise_it)
        return costs.burden(method("grace"), {}, small_graph, torch.device("cpu"))

    assert fails(torch.OutOfMemoryError("CUDA out of memory")) == {"out_of_memory": True}
    assert fails(RuntimeError("DefaultCPUAllocator: can't allocate memory")) == {"out_of_memory": True}
    with pytest.raises(RuntimeError, match="other"):
        fails(RuntimeError("other"))


def test_absent_features_are_drawn(monkeypatch):
    def without(name, root, features=True):
        if features:
            raise InputError("no features")
        data = load(name)
        data.x = None
        return data

    monkeypatch.setattr(burden, "load", without)
    subject = Subject.of("demo", None)
    assert subject.describe()["feature_entries"] == 2700 * 1400
    assert "random features" in subject.note
    assert subject.graph.fingerprint == Subject.of("demo", None).graph.fingerprint


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    settings = {"device": "cpu", "epochs": 2, **SMALL, "batch_size": 128}
    store = Store(tmp_path_factory.mktemp("store"))
    request = Request(("demo",), ("grace", "gca*", "epagcl"), 1, ("strict",), store, settings)
    return request, json.loads(json.dumps(ARTEFACT.measure(request)))


def test_measurement(measured, monkeypatch):
    request, result = measured
    assert [cell["method"] for cell in result["cells"]] == ["GRACE", "GCA", "EPAGCL"]
    for cell in result["cells"]:
        assert 0 <= cell["seconds_before"] < 5
        assert 0 < cell["seconds_per_epoch"] < 5
        assert 0 <= cell["gib"] < 2
        assert cell["settings"]["hidden"] == 16
        # One pass over both views without gradient is less, ten of them are more.
        assert 1 < cell["flops"] / encoder_pass(result["graphs"]["demo"], 16, 8) < 100
    monkeypatch.setattr(costs, "burden", None)
    monkeypatch.setattr(costs, "flops", None)
    assert json.loads(json.dumps(ARTEFACT.measure(request))) == result  # from the store


def test_page(measured, tmp_path):
    _, result = measured
    (table,) = ARTEFACT.tables(result)
    assert table.columns[:3] == ["method", "demo: pre-processing, s", "demo: FLOPs an epoch"]
    assert [str(row[0]) for row in table.rows] == ["GRACE", "GCA", "EPAGCL"]
    words = " ".join(ARTEFACT.reading(result))
    assert "demo: beside GCA, EPAGCL has" in words
    assert "–: not measured on this hardware" in table.note
    assert all(path.stat().st_size > 5000 for path in ARTEFACT.draw(result, tmp_path))


def made_up(**changed) -> dict:
    """The paper's own figures as if measured here, on its three graphs."""
    sizes = {"Cora": (2708, 5278, 1433), "PubMed": (19717, 44324, 500), "ogbn-arxiv": (169343, 1157799, 128)}
    graphs = {
        name: {"nodes": n, "pairs": e, "features": f, "feature_entries": n * f, "note": ""}
        for name, (n, e, f) in sizes.items()
    }
    cells = []
    for graph in graphs:
        for title in ("MVGRL", "GCA", "GREET", "EPAGCL"):
            cell = {"graph": graph, "method": title, "settings": {"hidden": 512, "dim": 256}}
            cell |= {"seconds_before": 0.5, "seconds_per_epoch": 0.1, "gib": 1.0, "flops": 1e10, "hardware": "H"}
            if (graph, title) in changed.get("out_of_memory", ()):
                cell = {k: v for k, v in cell.items() if k not in QUANTITIES} | {"out_of_memory": True, "flops": 1e10}
            cells.append(cell)
    return {"cells": cells, "graphs": graphs, "absent": {}}


def test_words_follow_what_was_measured():
    words = " ".join(ARTEFACT.reading(made_up()))
    assert "MVGRL runs on ogbn-arxiv, where the paper ran out of memory: 1.0 GiB" in words
    assert (
        "PubMed: beside GCA, EPAGCL has 1.00 times the time of an epoch (0.1 s against 0.1 s; the paper: 1.00)" in words
    )
    assert "1.00 times the pre-processing (0.5 s against 0.5 s; the paper: 4.07). At most 1.5 times as much: " in words
    # 2·N·F·512 and so on: an encoder pass on Cora's dense features is 13 times the figure of the paper.
    assert "the paper has 3.57e+08 FLOPs an epoch; one pass of the encoder" in words
    assert "takes 4.70e+09" in words
    assert "The paper's figure is N·(2·256² + 3·256)" in words
    assert "Its figure for MVGRL is N·4·512" in words
    result = made_up(out_of_memory=[("ogbn-arxiv", "GREET")])
    assert "GREET runs out of memory on ogbn-arxiv here too" in " ".join(ARTEFACT.reading(result))
    (table,) = ARTEFACT.tables(result)
    greet = next(row for row in table.rows if row[0] == "GREET")
    assert [str(cell) for cell in greet[-4:]] == [
        "out of memory (15.95 h)",
        "1.00e+10 (OOM)",
        "out of memory (OOM)",
        "out of memory (OOM)",
    ]
    assert len(ARTEFACT.figures(result)[""].axes) == 3 * len(QUANTITIES)


def test_verdicts_are_of_single_quantities():
    result = made_up()
    ours, gca = (
        next(cell for cell in result["cells"] if (cell["graph"], cell["method"]) == ("Cora", title))
        for title in ("EPAGCL", "GCA")
    )
    ours |= {"flops": 2.3e10, "seconds_per_epoch": 0.134}
    (cora,) = (words for words in ARTEFACT.reading(result) if words.startswith("Cora: beside GCA"))
    assert "1.34 times the time of an epoch" in cora
    assert cora.endswith(
        "At most 1.5 times as much: time of an epoch, memory, pre-processing; "
        "more than 1.5 times as much: FLOPs of an epoch."
    )
    gca["settings"] = {"hidden": 256, "dim": 128}
    (cora,) = (words for words in ARTEFACT.reading(result) if words.startswith("Cora: beside GCA"))
    assert "2.30 times the FLOPs of an epoch (2.30e+10 against 1.00e+10" in cora
    assert cora.endswith("No verdict, as the recipes' widths differ: 512/256 against 256/128.")
    assert "times as much" not in cora


def test_nothing_measured():
    nothing = {"cells": [], "graphs": {}, "absent": {"Cora": "data are absent"}}
    (table,) = ARTEFACT.tables(nothing)
    assert table.rows == []
    assert ARTEFACT.reading(nothing)
    assert ARTEFACT.figures(nothing)


def test_peak_memory_sees_an_allocation():
    with costs.PeakMemory(torch.device("cpu")) as memory:
        block = torch.ones(2**26)  # 256 MiB
        torch.mm(torch.ones(1500, 1500), torch.ones(1500, 1500))  # long enough to be sampled
        del block
    assert 0.2 < memory.gib < 0.5
