import pytest

from epagcl.paper.burden.tables import QUANTITIES, hardware_names, is_cpu, reported_costs, tables


def test_reported_flops_are_those_of_the_projection_head():
    for graph, n in (("Cora", 2708), ("PubMed", 19717), ("ogbn-arxiv", 169343)):
        assert n * (2 * 256**2 + 3 * 256) == pytest.approx(reported_costs(graph, "EPAGCL")["flops"], rel=0.002)
    assert reported_costs("ogbn-arxiv", "GREET")["seconds_before"] == "15.95 h"
    assert reported_costs("ogbn-arxiv", "MVGRL") == dict.fromkeys(QUANTITIES, "OOM")
    assert reported_costs("Cora", "GRACE") == {}


def test_hardware_is_named_once():
    cells = [{"hardware": name} for name in ("H200", None, "X, 2 threads", "H200")]
    assert hardware_names({"cells": cells}) == "H200, X, 2 threads"
    assert hardware_names({"cells": []}) == "nothing"
    assert [is_cpu(name) for name in ("H200", "X, 2 threads")] == [False, True]


def test_measurements_of_another_version_are_named():
    cells = [
        {"graph": "Cora", "method": name, "hardware": "H200", "commit": commit}
        for name, commit in (("DGI", "1234567890"), ("GMI", "1234567890"), ("GREET", "abcdefghij"))
    ]
    missing = {"graph": "Cora", "method": "GCA", "hardware": None}
    result = {"cells": [*cells, missing], "graphs": {"Cora": {"note": ""}}, "absent": {}}
    sentence = "Measured with another version than the other rows (1234567): GREET on Cora (abcdefg)."
    assert tables(result)[0].note.endswith(sentence)
    result["cells"] = [*cells[:2], missing]
    assert "another version" not in tables(result)[0].note
