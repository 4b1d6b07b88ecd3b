import torch

from epagcl.nn.encoders import GCN
from epagcl.paper.burden.artefact import ARTEFACT, Subject, costs
from epagcl.paper.burden.reading import encoder_pass
from epagcl.paper.burden.tables import QUANTITIES


def invented(**changed) -> dict:
    """Return an invented result on the paper's three graphs."""
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


def test_flops_of_an_encoder_pass_equal_the_formula():
    subject = Subject.from_name("demo", None)
    encoder = GCN([subject.graph.num_features, 32, 16])
    with costs.FlopCounter() as counter, torch.no_grad():
        encoder(subject.graph.x, subject.graph.adjacency)
    assert counter.flops == encoder_pass(subject.sizes(), 32, 16)


def test_text_follows_the_measurements():
    words = " ".join(ARTEFACT.reading(invented()))
    assert "MVGRL runs on ogbn-arxiv, where the paper ran out of memory: 1.0 GiB" in words
    assert "PubMed: compared with GCA, EPAGCL has 1.00 times the time of an epoch (0.1 s against 0.1 s; " in words
    assert "the time of an epoch (0.1 s against 0.1 s; the paper: 1.00)" in words
    assert "1.00 times the pre-processing (0.5 s against 0.5 s; the paper: 4.07). At most 1.5 times as much: " in words
    # An encoder pass on Cora's dense features (2·N·F·512, ...) takes 13 times the paper's number.
    assert "the paper reports 3.57e+08 FLOPs per epoch; one pass of the encoder" in words
    assert "takes 4.70e+09" in words
    assert "The paper's number is N·(2·256² + 3·256)" in words
    assert "Its number for MVGRL is N·4·512" in words
    result = invented(out_of_memory=[("ogbn-arxiv", "GREET")])
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


def test_each_quantity_has_its_own_verdict():
    result = invented()
    ours, gca = (
        next(cell for cell in result["cells"] if (cell["graph"], cell["method"]) == ("Cora", title))
        for title in ("EPAGCL", "GCA")
    )
    ours |= {"flops": 2.3e10, "seconds_per_epoch": 0.134}
    (cora,) = (words for words in ARTEFACT.reading(result) if words.startswith("Cora: compared with GCA"))
    assert "1.34 times the time of an epoch" in cora
    assert cora.endswith(
        "At most 1.5 times as much: time of an epoch, memory, pre-processing; "
        "more than 1.5 times as much: FLOPs of an epoch."
    )
    gca["settings"] = {"hidden": 256, "dim": 128}
    (cora,) = (words for words in ARTEFACT.reading(result) if words.startswith("Cora: compared with GCA"))
    assert "2.30 times the FLOPs of an epoch (2.30e+10 against 1.00e+10" in cora
    assert cora.endswith("No verdict, as the recipes' widths differ: 512/256 against 256/128.")
    assert "times as much" not in cora
