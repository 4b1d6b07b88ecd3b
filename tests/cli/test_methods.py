import json


def test_methods_lists_methods_and_settings(run):
    code, out, _ = run("methods")
    assert code == 0
    for words in ("epagcl", "AAAI 2025", "cca-ssg", "labels; time E d", "Deep Graph Infomax", "needs"):
        assert words in out
    assert "epagcl+ (default)" in out
    code, out, _ = run("methods", "--json")
    assert json.loads(out)[0]["name"] == "epagcl+"
    assert {row["name"] for row in json.loads(out)} >= {"bgrl", "dgi", "gat", "gca", "gcn", "gmi", "greet", "mvgrl"}
    assert all(list(row) == ["name", "summary", "needs", "paper"] for row in json.loads(out))
    code, out, _ = run("methods", "epagcl", "--json")
    settings = {row["setting"]: row for row in json.loads(out)}
    assert settings["p_add"]["default"] == 0.05
    assert settings["drop"]["choices"] == ["eq9", "text", "uniform"]
