"""Write five small graphs as the files that users have: ``python examples/make_data.py [FOLDER]``.

Each folder under ``examples/data`` stands for one field, with its usual flaws: gaps, categories, dates, text, ids of
two kinds, weights, several kinds of edges, no features. Labels follow hidden groups, which also shape edges and
features.
"""

import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Pairs = list[tuple[int, int]]


def grouped_edges(rng: np.random.Generator, groups: np.ndarray, count: int, inside: float = 0.85) -> Pairs:
    """Return random pairs of nodes, most of them within a group."""
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < count:
        i = int(rng.integers(len(groups)))
        same = np.flatnonzero(groups == groups[i])
        j = int(rng.choice(same) if rng.random() < inside else rng.integers(len(groups)))
        if i != j and (j, i) not in pairs:
            pairs.add((i, j))
    return sorted(pairs)


def with_gaps(rng: np.random.Generator, values: list[Any], share: float) -> list[Any]:
    """Return values with None in place of a random share."""
    return [None if rng.random() < share else value for value in values]


def some_date(rng: np.random.Generator, first: date, days: int) -> str:
    """Return a random date."""
    return (first + timedelta(days=int(rng.integers(days)))).isoformat()


def transactions(folder: Path) -> None:
    """Accounts with categories, dates and gaps; payments between them; some accounts are known to be fraudulent."""
    rng = np.random.default_rng(1)
    kinds = rng.choice(3, 150, p=[0.55, 0.3, 0.15])  # private, shop, fraud
    ids = [f"AC{1000 + k}" for k in range(150)]
    pairs = grouped_edges(rng, kinds, 420, inside=0.75)
    amounts = rng.lognormal(3 + (np.array([kinds[i] for i, _ in pairs]) == 2) * 2, 1).round(2)
    pd.DataFrame(
        {
            "tx_id": range(50_000, 50_000 + len(pairs)),
            "payer": [ids[i] for i, _ in pairs],
            "payee": [ids[j] for _, j in pairs],
            "amount": amounts,
        }
    ).to_csv(folder / "payments.csv", index=False)
    cities = [["Rome", "Oslo", "Bern", "Lyon"][int(rng.integers(4))] for _ in kinds]
    sectors = np.array([["private", "private"], ["retail", "food"], ["crypto", "gifts"]])
    opened = [some_date(rng, date(2023 if kind == 2 else 2016, 1, 1), 600) for kind in kinds]
    pd.DataFrame(
        {
            "account_id": ids,
            "balance": with_gaps(rng, rng.lognormal(7 + (kinds == 1) * 2, 1).round(2).tolist(), 0.1),
            "age": with_gaps(rng, rng.integers(18, 85, 150).tolist(), 0.2),
            "city": cities,
            "sector": [str(rng.choice(sectors[kind])) if rng.random() < 0.8 else None for kind in kinds],
            "opened": opened,
            "verified": np.where(rng.random(150) < np.where(kinds == 2, 0.3, 0.9), "yes", "no"),
            "status": np.where(kinds == 2, "fraud", "normal"),
        }
    ).astype({"age": "Int64"}).to_csv(folder / "accounts.csv", index=False)


def ratings(folder: Path) -> None:
    """Users and items whose numbers overlap, and no features."""
    rng = np.random.default_rng(2)
    taste, genre = rng.integers(0, 3, 60), rng.integers(0, 3, 40)
    rows = []
    for user in range(60):
        weights = np.where(genre == taste[user], 8.0, 1.0)
        for item in rng.choice(40, 6, replace=False, p=weights / weights.sum()):
            rows.append(
                (user + 1, int(item) + 1, int(np.clip(rng.normal(4 if genre[item] == taste[user] else 2), 1, 5)))
            )
    pd.DataFrame(rows, columns=["user_id", "item_id", "rating"]).to_csv(folder / "ratings.csv", index=False)


def proteins(folder: Path) -> None:
    """Weighted interactions of proteins, measured properties and a function for most of them."""
    rng = np.random.default_rng(3)
    functions = rng.integers(0, 4, 120)
    ids = [f"P{k:05d}" for k in rng.choice(99_999, 120, replace=False)]
    pairs = grouped_edges(rng, functions, 400)
    scores = [rng.integers(600, 1000) if functions[i] == functions[j] else rng.integers(150, 700) for i, j in pairs]
    pd.DataFrame(
        {"protein1": [ids[i] for i, _ in pairs], "protein2": [ids[j] for _, j in pairs], "combined_score": scores}
    ).to_csv(folder / "interactions.tsv", sep="\t", index=False)
    places = np.array(["nucleus", "membrane", "cytosol", "membrane"])[functions]
    pd.DataFrame(
        {
            "protein_id": ids,
            "length": rng.integers(80, 2200, 120),
            "mass_kda": rng.lognormal(3.7, 0.5, 120).round(1),
            "expression": (rng.lognormal(1, 1.2, 120) * (1 + functions)).round(3),
            "location": with_gaps(rng, places.tolist(), 0.3),
        }
    ).to_csv(folder / "proteins.tsv", sep="\t", index=False)
    known = rng.random(120) < 0.8
    names = np.array(["kinase", "transporter", "protease", "receptor"])[functions]
    pd.DataFrame({"protein_id": np.array(ids)[known], "function": names[known]}).to_csv(
        folder / "functions.tsv", sep="\t", index=False
    )


WORDS = {
    "databases": ["query", "index", "transaction", "storage", "join", "relational", "cache", "latency"],
    "vision": ["image", "pixel", "segmentation", "camera", "object", "detection", "texture", "depth"],
    "language": ["sentence", "grammar", "translation", "corpus", "parsing", "dialogue", "semantic", "speech"],
}
COMMON = ["learning", "fast", "robust", "deep", "efficient", "large", "scale", "study", "analysis", "methods"]


def citations(folder: Path) -> None:
    """Papers with titles, dates and venues, and their citations; the area of some is not known."""
    rng = np.random.default_rng(4)
    areas = sorted(WORDS)
    topic = rng.integers(0, 3, 140)
    ids = [f"paper-{k:03d}" for k in range(140)]
    pairs = grouped_edges(rng, topic, 380)
    pd.DataFrame({"citing": [ids[max(pair)] for pair in pairs], "cited": [ids[min(pair)] for pair in pairs]}).to_csv(
        folder / "citations.csv", index=False
    )
    titles = [" ".join([*rng.choice(WORDS[areas[k]], 3, replace=False), *rng.choice(COMMON, 3)]) for k in topic]
    pd.DataFrame(
        {
            "paper_id": ids,
            "title": titles,
            "published": sorted(some_date(rng, date(2012, 1, 1), 3600) for _ in ids),
            "venue": [f"{areas[k][:3].upper()}-{rng.integers(1, 4)}" if rng.random() < 0.9 else None for k in topic],
            "pages": rng.integers(4, 40, 140),
            "open_access": rng.choice(["true", "false"], 140),
        }
    ).to_csv(folder / "papers.csv", index=False)
    labels = [areas[k] if rng.random() < 0.9 else "NA" for k in topic]
    pd.DataFrame({"paper_id": ids, "area": labels}).to_csv(folder / "areas.csv", index=False)


def organisation(folder: Path) -> None:
    """People with several kinds of edges: who mails, manages and calls whom."""
    rng = np.random.default_rng(5)
    teams = rng.integers(0, 4, 90)
    ids = [f"u{k:02d}" for k in range(90)]
    rows = [(ids[i], ids[j], "mail") for i, j in grouped_edges(rng, teams, 260)]
    rows += [(ids[i], ids[j], "call") for i, j in grouped_edges(rng, teams, 120, inside=0.6)]
    for team in range(4):
        head, *others = np.flatnonzero(teams == team)
        rows += [(ids[head], ids[other], "manages") for other in others]
    pd.DataFrame(rows, columns=["source", "target", "type"]).to_csv(folder / "contacts.csv", index=False)
    pd.DataFrame(
        {
            "person_id": ids,
            "role": rng.choice(["engineer", "analyst", "sales", "support"], 90),
            "office": [["Paris", "Kyiv", "Porto"][(team + int(rng.integers(2))) % 3] for team in teams],
            "since": [some_date(rng, date(2010, 1, 1), 4500) for _ in ids],
            "salary": with_gaps(rng, (rng.lognormal(10.6, 0.3, 90).round(-2)).astype(int).tolist(), 0.15),
            "team": [f"team {team + 1}" for team in teams],
        }
    ).astype({"salary": "Int64"}).to_csv(folder / "people.csv", index=False)


def main(root: Path) -> None:
    """Write all folders."""
    for make in (transactions, ratings, proteins, citations, organisation):
        folder = root / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
        print(f"{folder.name}: {', '.join(sorted(path.name for path in folder.iterdir()))}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data")
