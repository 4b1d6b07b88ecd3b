import json

import pandas as pd


def test_epr_of_named_graphs_and_tables(run, files):
    code, out, _ = run("epr", "demo", "--top", 3)
    assert code == 0
    for words in ("EPR", "per node", "homophily", "Theorem 3.3", "degree: 0 to", "Edges whose removal lowers EPR most"):
        assert words in out
    code, out, _ = run("epr", "--edges", "e.csv", "--labels", "l.csv", "--json", "--top", 2)
    assert code == 0
    harmful = json.loads(out)["most_harmful"]
    assert len(harmful) == 2
    assert all(node.startswith("user-") for edge in harmful for node in edge["ids"])
    table = pd.read_csv(files / "l.csv")
    table[table.index > 20].to_csv(files / "part.csv", index=False)
    code, out, _ = run("epr", "--edges", "e.csv", "--labels", "part.csv", "--json")
    assert code == 0
    assert json.loads(out)["num_nodes"] == 99
    code, _, err = run("epr", "--edges", "e.csv")
    assert code == 2
    assert "no labels" in err
