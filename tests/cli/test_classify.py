import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epagcl.runs import write_embeddings

Y = np.arange(120) % 3
Z = np.eye(3)[Y] + 0.2 * np.random.default_rng(0).normal(size=(120, 3))


@pytest.fixture
def z(tmp_path):
    names = np.array(["red", "green", "blue"])[Y]
    pd.DataFrame({"id": range(60), "label": names[:60]}).to_csv(tmp_path / "l.csv", index=False)
    return write_embeddings(Z, None, tmp_path / "z.npy")[0]


@pytest.mark.slow
def test_all_nodes_are_predicted(run, z):
    code, out, _ = run("classify", z, "--labels", "l.csv", "--out", "p.csv")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "60 labels of 3 classes: accuracy 1.000 by cross-validation (largest class: 0.333)"
    assert lines[1].startswith("expected calibration error 0.0")
    assert lines[-1] == "written: p.csv"
    assert "labels per class" in out
    table = pd.read_csv("p.csv")
    assert table.columns.tolist() == ["id", "label", "predicted", "probability", "p_blue", "p_green", "p_red"]
    assert (table["predicted"] == np.array(["red", "green", "blue"])[Y]).mean() == 1
    assert table["label"].isna().sum() == 60


def test_json(run, z):
    code, out, _ = run("classify", z, "--labels", "l.csv", "--out", "p.parquet", "--no-curve", "--json")
    result = json.loads(out)
    assert (code, result["accuracy"], result["curve"], result["file"]) == (0, 1.0, None, "p.parquet")
    assert len(pd.read_parquet("p.parquet")) == 120


def test_mistakes_end_in_one_line_and_write_nothing(run, z):
    Path("few.csv").write_text("id,label\n0,red\n1,green\n")
    message = "y: at least 2 classes need 2 labels each, and there are: green 1, red 1; label more nodes"
    code, out, err = run("classify", z, "--labels", "few.csv", "--out", "p.csv")
    assert (code, out, err.splitlines()[-1]) == (2, "", f"epagcl: {message}")
    assert not Path("p.csv").exists()
    assert run("classify", z, "--labels", "none.csv") == (2, "", "epagcl: none.csv: no such file; check the name\n")
