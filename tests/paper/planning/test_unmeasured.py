from epagcl.paper.planning.unmeasured import unmeasured


def test_graphs_and_untimed_methods_are_named():
    everything = unmeasured({})
    assert set(everything) == {"epr", "theory", "graphs", "operators", "burden"}
    assert {"Cora", "WikiCS"} <= set(everything["epr"])
    epr = {"graphs": dict.fromkeys(everything["epr"][1:]), "absent": {}}
    assert unmeasured({"epr": epr})["epr"] == everything["epr"][:1]
    epr["absent"] = {everything["epr"][0]: "data are absent"}
    assert "epr" not in unmeasured({"epr": epr})
    scored = {"graphs": {name: {"operators": {"X": {"accuracy": [0.5] * 20}}} for name in everything["operators"]}}
    scored["graphs"]["Cora"] = {"operators": {"X": {"accuracy": [0.5] * 20}, "ÂX": {"accuracy": [0.5] * 19}}}
    assert unmeasured({"operators": {**scored, "absent": {}}})["operators"] == ["Cora"]
    cells = [{"method": name, "graph": "Cora", "hardware": own} for name, own in (("GREET", None), ("DGI", "cpu"))]
    burden = {"graphs": dict.fromkeys(everything["burden"]), "absent": {}, "cells": cells}
    assert unmeasured({"burden": burden})["burden"] == ["GREET on Cora"]
    assert unmeasured({"burden": burden}, ["cora"])["burden"] == ["GREET on Cora"]
    assert "burden" not in unmeasured({"burden": burden}, ["texas"])
