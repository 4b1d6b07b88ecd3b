import json
from pathlib import Path

import pytest

from tests.cli.conftest import FAST


@pytest.mark.slow
def test_train_and_embed_write_a_report_and_print_the_health(run, files):
    code, out, _ = run("train", "demo", *FAST, "--runs", 1, "--out", "a")
    assert code == 0
    assert "health, no labels" in out
    assert out.splitlines()[-1] == f"report: {Path('a') / 'report.html'}"
    code, out, _ = run("embed", "--edges", "e.csv", "--features", "f.csv", *FAST, "--out", "z.csv", "--json")
    result = json.loads(out)
    assert (code, result["report"]) == (0, "z.report.html")
    assert Path("z.report.html").stat().st_size > 10**5
    assert [finding["name"] for finding in result["health"]] == ["effective rank", "uniformity", "alignment"]


@pytest.mark.slow
def test_a_report_of_several_runs(run):
    for seed in (0, 1):
        assert run("train", "demo", *FAST, "--runs", 1, "--seed", seed, "--out", f"r{seed}", "--quiet")[0] == 0
    assert run("report", "r0", "r1", "--out", "both.html") == (0, "report: both.html\n", "")
    assert "2 runs" in Path("both.html").read_text()
    code, out, _ = run("report", "r0", "--json")
    assert (code, json.loads(out)) == (0, {"report": str(Path("r0") / "report.html")})
    assert run("report", "r9") == (2, "", "epagcl: r9: no such run folder; give the folder of a finished run\n")
    code, _, err = run("report", "r0", "--map", "star")
    assert (code, err) == (2, "epagcl: --map star: choose one of auto, tsne, umap, pca, none\n")
