"""Embed your own tables, check the result without labels, and embed a node that arrives later.

Run it with ``python examples/own_data.py``. It makes two small CSV files; replace them by your own.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import epagcl


def make_tables(people: int = 120) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return who knows whom, mostly within three groups, and eight measurements of each person."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(people, size=(2, 8 * people))
    kept = (first != second) & ((first % 3 == second % 3) | (rng.random(len(first)) < 0.05))
    names = np.array([f"person-{k:03d}" for k in range(people)])
    edges = pd.DataFrame({"source": names[first[kept]], "target": names[second[kept]]})
    measurements = rng.normal(size=(people, 8)) + 2 * np.eye(3, 8)[np.arange(people) % 3]
    features = pd.DataFrame(measurements.round(3), columns=[f"f{k}" for k in range(8)])
    features.insert(0, "id", names)
    return edges.drop_duplicates(), features


def main(folder: Path) -> None:
    """Train, look at the result, save the model, and use it on the grown graph."""
    edges, features = make_tables()
    edges.to_csv(folder / "edges.csv", index=False)
    features.to_csv(folder / "features.csv", index=False)

    data = epagcl.read_graph(edges=folder / "edges.csv", features=folder / "features.csv")
    model = epagcl.EPAGCLPlus(epochs=50, dim=32, seed=0).fit(data)
    z = model.embed(data)
    print(f"{z.shape[0]} nodes, {z.shape[1]} dimensions")
    for finding in model.health(data):  # did training work? no labels needed
        print(f"{finding.name}: {finding.shown} ({finding.verdict})")
    model.save(folder / "model")

    # A new person knows persons 0 and 3. The saved model embeds the grown graph without training.
    newcomer = pd.DataFrame({"source": ["newcomer"] * 2, "target": ["person-000", "person-003"]})
    measurements = features.iloc[[0]].assign(id="newcomer")
    grown = epagcl.from_tables(pd.concat([edges, newcomer]), pd.concat([features, measurements]))
    unit = epagcl.load_model(folder / "model").transform(grown)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    ids = list(grown.node_ids)
    ranked = np.argsort(-unit @ unit[ids.index("newcomer")])
    print("nearest to the newcomer:", ", ".join(str(ids[k]) for k in ranked[1:4]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
