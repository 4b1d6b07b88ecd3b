import numpy as np
import pytest

from epagcl.paper.heterophily import ARTEFACT, over_gca
from tests.paper.conftest import cell, result


@pytest.mark.slow
def test_small_measurement_has_all_files(request_of, tmp_path):
    made = ARTEFACT.make(request_of(methods=("gca", "epagcl"), runs=1), "epagcl paper heterophily")
    assert {path.name for path in ARTEFACT.write(made, tmp_path / "out")} >= {"heterophily.csv", "heterophily.png"}
    assert len(ARTEFACT.reading(made)) >= 4  # under the paper's protocol; demo has no published splits
    by_row = {one["row"]: one["settings"] for one in made["cells"]}
    shared = {"epochs", "lr", "temperature", "p_drop_1", "p_mask_2", "hidden", "dim", "weight_decay", "activation"}
    for one, other in (("EPAGCL, settings of GCA", "GCA"), ("GCA, settings of EPAGCL", "EPAGCL")):
        assert {name: by_row[one][name] for name in shared} == {name: by_row[other][name] for name in shared}


def test_reading_compares_with_gca_and_with_the_raw_features():
    runs = {"GCA": [60, 61, 62], "EPAGCL": [64, 65, 66.3], "raw features": [70, 71, 71]}
    cells = [cell(title, "Texas", values, "paper") for title, values in runs.items()]
    made = result(cells, datasets=("texas",), protocols=("paper",))
    gca, raw, first, _ = ARTEFACT.reading(made)
    assert "EPAGCL is better on 1 of 1 graph and worse on 0. In points: Texas +4.1 (better, detectable" in gca
    assert "EPAGCL is better on 0 of 1 graph and worse on 1. In points: Texas -5.6 (worse, detectable" in raw
    assert first.endswith("raw features on Texas.")
    table = ARTEFACT.tables(made)[0]
    assert str({row[0]: row for row in table.rows}["EPAGCL"][1]) == "65.1 ± 1.2 (64.1)"
    assert over_gca(made, "paper")["Texas", "GCA"].n == 3


def test_different_settings_and_collapsed_embeddings_are_named():
    training = {"epochs": [9, 9], "seconds": [1.0, 1.0], "effective_rank": [1.2, 5.0]}
    cells = [
        cell("GCA", "Texas", [60, 61], "paper", settings={"name": "gca", "lr": 0.001, "hidden": 8}),
        cell("EPAGCL", "Texas", [64, 65], "paper", settings={"name": "epagcl", "lr": 0.01, "hidden": 8}),
    ]
    cells[1]["training"] = training
    text = " ".join(ARTEFACT.reading(result(cells, datasets=("texas",), protocols=("paper",))))
    assert "**Settings differ**" in text
    assert "the recipes of EPAGCL and GCA differ in lr on Texas." in text
    assert "an effective rank below 2 after training: EPAGCL: Texas 1 of 2." in text


def test_runs_on_the_same_published_split_are_averaged():
    rng = np.random.default_rng(0)
    d = rng.normal(3.0, 1.0, size=20).round(3)
    cells = [cell("GCA", "Texas", [60.0] * 20, "public"), cell("EPAGCL", "Texas", 60 + d, "public")]
    made = result(cells, datasets=("texas",), protocols=("public",))
    (test,) = over_gca(made, "public").values()
    by_split = (d[:10] + d[10:]) / 2
    assert test.n == 10
    assert test.mean == pytest.approx(by_split.mean())
    assert test.error == pytest.approx(by_split.std(ddof=1) * (1 / 10 + 20 / 48) ** 0.5)
    other = result([{**one, "protocols": {"strict": one["protocols"]["public"]}} for one in cells], datasets=("texas",))
    (test,) = over_gca(other, "strict").values()
    assert (test.n, test.error) == (20, pytest.approx(d.std(ddof=1) * (1 / 20 + 1 / 4) ** 0.5))
