import numpy as np
import pytest

from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.paper import overlap, overlap_simulation
from epagcl.paper.overlap import ARTEFACT, COMPARED, all_shared, graph_correlations, size_if
from epagcl.study.paired_test import OVERLAP


def invented():
    sizes = {"plain": 0.3, "ours": 0.05, "nadeau_bengio": 0.0, "this_graph": 0.04}
    about = {"nodes": 400, "noise": 2.0, "seed_noise": 0.0, "graphs": 100, "shared_variance": 0.2}
    about["shared_variance_of_nodes"] = 0.15
    pairs = [
        {"pair": ["Â²X", "X"], "shared_variance": 0.1},
        {"pair": ["PageRank, α = 0.15", "X"], "shared_variance": 0.4},
    ]
    return {
        "simulated": [{**about, "sizes": {"5": sizes, "20": sizes | {"ours": 0.07}}}],
        "graphs": {"Cora": {"nodes": 2708, "pairs": pairs}},
        "absent": {},
        "asked": {"runs": 20},
    }


def test_tables_and_reading():
    sizes, graphs = ARTEFACT.tables(invented())
    assert sizes.rows[1][2:] == ["0.20", "0.15", "20", "30.0", "7.0", "0.0", "4.0"]
    assert graphs.rows == [["Cora", "2,708", "0.10", "0.40"]]
    earlier = invented()
    del earlier["simulated"][0]["shared_variance_of_nodes"]
    assert ARTEFACT.tables(earlier)[0].rows[1][2:4] == ["0.20", "–"]
    first, this_graph, named = ARTEFACT.reading(invented())
    assert f"with c = {OVERLAP:g}**" in first
    assert "it decides wrongly in 5% to 7% of cases" in first
    assert "most often with 400 nodes and no noise of the seeds" in first
    assert "(4%)" in this_graph
    assert "1 of 2 pairs are at most 0.25. It is larger on Cora" in named
    assert f"If c is 0.40, the test of 20 runs decides wrongly in {size_if(0.4, 20):.0%} of cases." in named
    assert all_shared(invented()) == {"Cora": 0.4}
    assert len(ARTEFACT.figures(invented())[""].axes) == 1


def test_one_run_is_refused(request_of):
    with pytest.raises(InputError, match="1 run: at least 2"):
        ARTEFACT.measure(request_of(runs=1))


def test_the_size_with_another_c_is_that_of_simulated_runs():
    rng = np.random.default_rng(0)
    runs = rng.normal(size=(8000, 10)) + 0.6**0.5 * rng.normal(size=(8000, 1))
    assert size_if(0.6, 10) == pytest.approx(overlap_simulation.size(runs, OVERLAP), abs=0.02)
    assert size_if(OVERLAP, 10) == pytest.approx(0.05)


def test_correlations_of_a_graph_are_measured_on_single_nodes():
    pairs = graph_correlations(block_model(300, num_classes=3, num_features=40, topic_words=10), runs=6)
    assert [pair["pair"] for pair in pairs] == [
        [COMPARED[1], COMPARED[0]],
        [COMPARED[2], COMPARED[0]],
        [*COMPARED[:0:-1]],
    ]
    assert all(0 <= pair["shared_variance"] < 8 for pair in pairs)


@pytest.mark.slow
def test_small_measurement(request_of, tmp_path, monkeypatch):
    monkeypatch.setattr(overlap_simulation, "GRAPHS", 5)
    monkeypatch.setattr(overlap, "SCENARIOS", overlap.SCENARIOS[:1])
    made = ARTEFACT.make(request_of(runs=3, protocols=("strict",)), "epagcl paper overlap")
    assert list(made["graphs"]) == ["demo"]
    assert set(made["simulated"][0]["sizes"]) == {"5", "10", "20"}
    assert {path.name for path in ARTEFACT.write(made, tmp_path)} >= {
        "overlap.json",
        "overlap.svg",
        "overlap-graphs.csv",
    }
