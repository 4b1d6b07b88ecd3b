"""The files of reports: in run folders, beside embeddings, and of several runs together."""

import gzip
import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

from epagcl import EPAGCL, GRACE
from epagcl.core.errors import InputError
from epagcl.data import block_model
from epagcl.evaluation.health import neighbour_agreement
from epagcl.report import files
from epagcl.report.files import PAGE, read_columns, runs_in, write_comparison, write_embedding_report, write_run_report
from epagcl.runs.evaluation import Plan
from epagcl.runs.execute import run, run_seeds, trained_metrics

SMALL = {"hidden": 16, "dim": 8, "projection": 8, "epochs": 2, "device": "cpu"}


@pytest.fixture(scope="module")
def data():
    data = block_model(60, num_classes=3, num_features=20, topic_words=6, seed=1)
    data.node_ids = np.array([f"n{k}" for k in range(60)], dtype=object)
    return data


@pytest.fixture(scope="module")
def folders(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("runs")
    for name, method in (("one", EPAGCL(**SMALL)), ("two", GRACE(**SMALL))):
        run(data, method, root / name, plan=Plan(), map_kind="pca")
    run_seeds(data, [EPAGCL(seed=seed, **SMALL) for seed in (1, 2)], root / "seeds", plan=Plan(), map_kind="pca")
    return root


@pytest.fixture
def written(monkeypatch):
    """The content of each page by its path, in place of the page."""
    pages = {}
    monkeypatch.setattr(files, "write_page", lambda content, path: pages.update({path: content}))
    return pages


@pytest.mark.slow
def test_a_run_folder_has_its_page_and_its_nodes(folders, data):
    page = (folders / "one" / PAGE).read_text()
    assert "EPAGCL on graph" in page
    nodes = pd.read_csv(folders / "one" / "nodes.csv")
    assert list(nodes.columns) == ["id", "label", "degree", "cluster", "map_x", "map_y"]
    assert nodes["id"].tolist() == data.node_ids.tolist()
    assert nodes["label"].tolist() == data.y.tolist()
    content = json.loads(gzip.decompress((folders / "one" / "report.json.gz").read_bytes()))
    assert nodes["map_x"].tolist() == content["map"]["x"]


def test_several_runs_in_one_page(folders, written, tmp_path):
    out = write_comparison([folders / "one", folders / "two"], tmp_path / "both.html", title="Both")
    content = written[out]
    assert content["title"] == "Both"
    assert [one["name"] for one in content["runs"]] == ["one", "two"]
    embeddings = [files._read_embedding(folders / name) for name in ("one", "two")]
    assert content["agreement"]["matrix"] == neighbour_agreement(embeddings)


def test_a_folder_of_seeds_stands_for_all_of_them(folders, written):
    assert runs_in(folders / "seeds") == [folders / "seeds" / "seed-1", folders / "seeds" / "seed-2"]
    assert (folders / "seeds" / PAGE).is_file()  # run_seeds made it
    out = write_comparison([folders / "seeds", folders / "one"], folders / "all.html")
    assert [one["name"] for one in written[out]["runs"]] == ["seeds/seed-1", "seeds/seed-2", "one"]
    assert len(written[out]["agreement"]["matrix"]) == 3


def test_the_health_of_seeds_has_their_agreement(folders):
    health = json.loads((folders / "seeds" / "metrics.json").read_text())["health"]
    assert [finding["name"] for finding in health] == [
        "effective rank",
        "uniformity",
        "alignment",
        "neighbour agreement",
    ]
    z = [files._read_embedding(folders / "seeds" / f"seed-{seed}") for seed in (1, 2)]
    assert health[-1]["value"] == pytest.approx(neighbour_agreement(z)[0][1])


def test_another_map_and_further_columns(folders, written, tmp_path):
    before = json.loads(gzip.decompress((folders / "one" / "report.json.gz").read_bytes()))["map"]
    table = pd.DataFrame({"node": ["n1", "n0", "else"], "city": ["Ulm", "Köln", "Bonn"], "degree": [1.5, 2.5, 3.5]})
    table.to_csv(tmp_path / "t.csv", index=False)
    out = write_comparison([folders / "one"], tmp_path / "p.html", kind="tsne", columns=tmp_path / "t.csv")
    map_ = written[out]["runs"][0]["map"]
    assert map_["kind"] == "t-SNE"
    assert map_["x"] != before["x"]
    assert map_["neighbours"] == before["neighbours"]
    assert map_["columns"][:3] == before["columns"]
    city, degree = map_["columns"][3:]
    assert [city["levels"][k] if k >= 0 else None for k in city["values"][:3]] == ["Köln", "Ulm", None]
    assert degree["name"] == "degree (table)"
    assert degree["values"][:3] == [2.5, 1.5, None]


def test_ids_are_literal_text(tmp_path, written):
    """007 is not a number, NA and null are not missing, and features called x and y are not the map's positions."""
    names = ["007", "NA", "null", "nan", *(f"{k:03d}" for k in range(100, 120))]
    data = block_model(24, num_classes=2, num_features=2, topic_words=1, words_per_node=1, seed=0)
    data.node_ids, data.x, data.feature_names = names, torch.rand(24, 2), ["x", "y"]
    data.label_names = ["NA", "b"]
    run(data, EPAGCL(**SMALL), tmp_path / "run", map_kind="pca")
    (tmp_path / "t.csv").write_text("\ufeffnode,a\n007,1\nNA,2\nnull,inf\n100,\n", encoding="utf-8")
    assert read_columns(tmp_path / "t.csv").index.tolist() == ["007", "NA", "null", "100"]
    out = write_comparison([tmp_path / "run"], tmp_path / "p.html", kind="tsne", columns=tmp_path / "t.csv")
    map_ = written[out]["runs"][0]["map"]
    assert map_["ids"] == names
    columns = {column["name"]: column for column in map_["columns"]}
    assert list(columns) == ["label", "degree", "cluster", "a", "x", "y"]
    assert columns["a"]["values"][:5] == [1, 2, None, None, None]
    assert columns["x"]["values"] == pytest.approx(data.x[:, 0].tolist(), rel=1e-6)
    assert [columns["label"]["levels"][k] for k in columns["label"]["values"]] == [data.label_names[k] for k in data.y]


def test_an_embedding_is_coloured_by_a_table(tmp_path, data, written):
    model = EPAGCL(**SMALL).fit(data)
    extra = pd.DataFrame({"city": ["Ulm", "Köln"]}, index=["n1", "n0"])
    z = model.embed(data)
    page = write_embedding_report(
        str(tmp_path / "z.npy"), data, model, z.numpy(), trained_metrics(data, model, "g"), kind="pca", extra=extra
    )
    column = written[page]["runs"][0]["map"]["columns"][3]
    assert (column["name"], [column["levels"][k] for k in column["values"][:2]]) == ("city", ["Köln", "Ulm"])


def test_paths_may_be_text_and_a_report_needs_no_run(tmp_path, data, folders, written):
    model = EPAGCL(**SMALL).fit(data)
    z = model.embed(data).numpy()
    alone = tmp_path / "new" / "alone"
    write_run_report(str(alone), data, model, z, trained_metrics(data, model, "g"), kind="pca")
    page = write_comparison([str(alone), str(folders / "one")], tmp_path / "p.html")
    assert [run["name"] for run in written[page]["runs"]] == ["alone", "one"]
    assert written[page]["agreement"] is None  # one of them has no embedding
    assert run(data, EPAGCL(**SMALL), str(tmp_path / "run"), map_kind="none")["graph"]["nodes"] == 60
    with pytest.raises(InputError, match="no run to report; give folders of finished runs"):
        write_comparison([])


def test_errors_name_the_file_and_the_fix(folders, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no such run folder"):
        runs_in(tmp_path / "none")
    (tmp_path / "t.csv").write_text("id,a\nx,1\n")
    with pytest.raises(InputError, match=r"t\.csv: none of its ids \(such as x\) is a node of .*one \(such as n0\)"):
        write_comparison([folders / "one"], tmp_path / "p.html", columns=tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("id,a\nx,1\nx,2\n")
    with pytest.raises(InputError, match="id x occurs twice; give one row per node"):
        read_columns(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("id,a\n")
    with pytest.raises(InputError, match="no rows"):
        read_columns(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("id\nx\n")
    with pytest.raises(InputError, match="only one column"):
        read_columns(tmp_path / "t.csv")
    with pytest.raises(InputError, match="cannot be read as a table"):
        read_columns(tmp_path / "absent.csv")


def test_folders_that_are_no_seeds_are_ignored(folders, tmp_path):
    shutil.copytree(folders / "one", tmp_path / "runs" / "seed-0")
    shutil.copytree(folders / "one", tmp_path / "runs" / "seed-abc")
    assert runs_in(tmp_path / "runs") == [tmp_path / "runs" / "seed-0"]


@pytest.mark.parametrize("name", ["report.json.gz", "nodes.csv", "embeddings.npy"])
@pytest.mark.parametrize(
    "content",
    [b"", b"x", gzip.compress(b"[]"), gzip.compress(b'{"settings": 3}')],
    ids=["empty", "text", "a list", "a wrong type"],  # compressed bytes contain the time
)
def test_damaged_runs_are_one_line(folders, tmp_path, name, content):
    shutil.copytree(folders / "one", tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(content)
    with pytest.raises(InputError, match=name.replace(".", r"\.")) as caught:
        write_comparison([tmp_path / "run"], tmp_path / "page.html", kind="pca")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "page.html").exists()
