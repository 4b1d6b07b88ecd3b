"""Write the notebooks in ``examples/notebooks`` without outputs: ``python examples/make_notebooks.py [FOLDER]``.

The cells are here, so that changes can be read, and the files never hold outputs. Texts are in Markdown.
"""

import json
import sys
from pathlib import Path
from typing import Any

OWN_TABLES = [
    """# Your own tables

Accounts, what is known about them, and payments between them: two tables as a bank may have them, with categories,
dates and gaps. No labels are used for training. Install with `pip install '.[notebook]'`.""",
    """>from pathlib import Path

import epagcl

folder = Path("../data/transactions")""",
    """The edges are in the columns `payer` and `payee`. `status` is a label, which is kept apart.""",
    """>data = epagcl.read_graph(
    edges=folder / "payments.csv", source="payer", target="payee", features=folder / "accounts.csv", label="status"
)
data""",
    """Every column became numbers. What was done to each:""",
    """>import pandas as pd

pd.DataFrame(data.encoding.summary())""",
    """Train. With the defaults this takes a minute; here, fewer epochs.""",
    """>model = epagcl.EPAGCLPlus(epochs=20, dim=32, seed=0).fit(data, progress=True)
model""",
    """>z = model.embed(data)
epagcl.show(z, labels=[data.label_names[k] for k in data.y], kind="pca", title="Accounts")""",
    """Is the embedding good? The report says so on its first screen. `.save("report.html")` writes it to a file.""",
    """>model.report(data, map="pca")""",
    """Which accounts do not fit? The reasons are in words.""",
    """>scores = epagcl.anomaly_scores(z, data.edge_index, x=data.x)
scores.insert(0, "id", data.node_ids)
scores.sort_values("score", ascending=False).head()""",
]

NEW_NODES = [
    """# New nodes

A model is trained on yesterday's papers. Today there are more. The model embeds them without training again, and
encodes their columns as it did before.""",
    """>import tempfile
from pathlib import Path

import pandas as pd

import epagcl

folder = Path("../data/citations")
papers = pd.read_csv(folder / "papers.csv")
citations = pd.read_csv(folder / "citations.csv")
old = set(papers.sort_values("published")["paper_id"][:-20])
f"{len(old)} papers yesterday, {len(papers)} today\"""",
    """>def graph_of(ids):
    edges = citations[citations["citing"].isin(ids) & citations["cited"].isin(ids)]
    return epagcl.from_tables(edges, papers[papers["paper_id"].isin(ids)], source="citing", target="cited")


yesterday = graph_of(old)
model = epagcl.EPAGCLPlus(epochs=20, dim=32, seed=0).fit(yesterday, progress=True)
model""",
    """A saved model holds its weights and the encoding of the columns, and no pickle.""",
    """>with tempfile.TemporaryDirectory() as place:
    model.save(place)
    print(sorted(path.name for path in Path(place).iterdir()))
    model = epagcl.load_model(place)

today = graph_of(set(papers["paper_id"]))
z = pd.DataFrame(model.transform(today), index=today.node_ids)
z.shape""",
    """The nearest neighbours of the new papers among all papers:""",
    """>new = [k for k, paper in enumerate(today.node_ids) if paper not in old]
near = epagcl.nearest_neighbours(z.to_numpy(), k=3, nodes=new)
titles = papers.set_index("paper_id").loc[z.index, "title"].to_list()
pd.DataFrame({"new": [titles[k] for k in new], "nearest": [titles[k] for k in near.nodes[:, 0]]}).head()""",
    """How far have old papers moved, by the edges of today? Should the model be trained again?""",
    """>before = model.transform(yesterday)
drift = epagcl.drift(z, before, ids=today.node_ids, previous_ids=yesterday.node_ids, data=today)
drift.sentence()""",
]

COMPARING_METHODS = [
    """# Comparing methods

Which method suits this graph? With labels, an honest answer needs the same splits for all, and references: raw features
and propagated features, which need no training.""",
    """>import pandas as pd

import epagcl

data = epagcl.load("demo")
data""",
    """All methods are estimators with the same interface. A few epochs show the way; use the defaults for results.""",
    """>models = {
    "propagated": epagcl.Propagated(dim=64),
    "CCA-SSG": epagcl.CCASSG(epochs=5, dim=64),
    "EPAGCL+": epagcl.EPAGCLPlus(epochs=2, members=1, hidden=32, dim=64),
}
embeddings = {"raw features": data.x.to_dense()}
for name, model in models.items():
    embeddings[name] = model.fit_embed(data, progress=True)""",
    """A linear classifier on two random splits, the same for all rows. Everything is chosen on validation nodes, and
test nodes are read once.""",
    """>scores = {name: epagcl.linear_evaluation(z, data.y, runs=2, seed=0) for name, z in embeddings.items()}
scores["EPAGCL+"]""",
    """>table = pd.DataFrame(
    {"accuracy": {name: score.mean for name, score in scores.items()}, "std": {k: s.std for k, s in scores.items()}}
)
table.mul(100).round(1)""",
    """Without labels, the health of each embedding can be compared.""",
    """>pd.DataFrame({name: {f.name: f.verdict for f in model.health(data)} for name, model in models.items()})""",
    """>epagcl.show(embeddings["EPAGCL+"], labels=data.y, kind="pca", title="EPAGCL+")""",
    """For many seeds, graphs and tests of significance, use the command line, which keeps finished runs:

```sh
epagcl compare demo --methods propagated,cca-ssg,epagcl+ --seeds 10
```""",
]

NOTEBOOKS = {"own_tables": OWN_TABLES, "new_nodes": NEW_NODES, "comparing_methods": COMPARING_METHODS}


def notebook(cells: list[str]) -> dict[str, Any]:
    """Return a notebook in the format 4.5. Cells that begin with ``>`` are code."""
    return {
        "cells": [
            {
                "cell_type": "code" if cell.startswith(">") else "markdown",
                "id": f"cell-{number}",
                "metadata": {},
                **({"execution_count": None, "outputs": []} if cell.startswith(">") else {}),
                "source": cell.removeprefix(">").splitlines(keepends=True),
            }
            for number, cell in enumerate(cells)
        ],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def main(folder: Path) -> None:
    """Write all notebooks to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, cells in NOTEBOOKS.items():
        text = json.dumps(notebook(cells), indent=1, ensure_ascii=False) + "\n"
        (folder / f"{name}.ipynb").write_text(text, encoding="utf-8")
        print(folder / f"{name}.ipynb")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "notebooks")
