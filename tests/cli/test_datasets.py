import json


def test_datasets_lists_sizes_and_sources(run, tmp_path):
    code, out, _ = run("datasets", "--data", tmp_path)
    assert code == 0
    for words in ("Cora", "2,708", "5,278", "1,433", "ogbn-arxiv", "demo", "generated", "download (PyG Planetoid)"):
        assert words in out
    (tmp_path / "Cora.npz").write_bytes(b"")
    code, out, _ = run("datasets", "--data", tmp_path, "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["Cora"]["source"].startswith("file ")
    assert len(rows) == 18
