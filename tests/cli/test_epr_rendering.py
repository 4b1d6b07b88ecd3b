import torch

from epagcl.cli.epr_rendering import show_epr
from epagcl.epr import epr_summary
from epagcl.runs.operators import OperatorReport, OperatorRow

ROW = OperatorRow("ÂX", 0.2, 0.3, 0.25, 0.5, messages=4.0, gain=2.25, estimated_gain=1.0)


def test_all_columns_are_shown(capsys):
    summary = epr_summary(torch.tensor([[0, 0, 0], [1, 2, 3]]), torch.tensor([0, 0, 0, 1]))
    show_epr("star", summary, ["a", "b", "c", "d"], OperatorReport((ROW,), structure=0.75))
    out = capsys.readouterr().out
    assert "star: 4 nodes, 3 edges, 2 classes" in out
    (line,) = (line for line in out.splitlines() if line.strip().startswith("ÂX"))
    assert line.split() == ["ÂX", "0.2000", "0.3000", "0.250", "0.500", "4.0", "2.25", "1.00"]
    assert "structure score, no labels: 0.750" in out
    assert "a – d" in out


def test_unknown_columns_are_left_out(capsys):
    row = OperatorRow("ÂX", None, None, None, 0.5, messages=4.0, gain=None, estimated_gain=1.0)
    show_epr("graph", None, [], OperatorReport((row,), structure=None))
    out = capsys.readouterr().out
    (line,) = (line for line in out.splitlines() if line.strip().startswith("ÂX"))
    assert line.split() == ["ÂX", "0.500", "4.0", "1.00"]
    assert "per node" not in out
    assert "structure score" not in out
