"""Encodings of tables with columns of several kinds: this package's, scikit-learn's and skrub's, by accuracy."""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import Tensor
from torch_geometric.data import Data

from epagcl.core.errors import InputError
from epagcl.core.formatting import percent
from epagcl.data import block_model, read_graph
from epagcl.data.io.columns.date import to_dates
from epagcl.data.io.columns.encoding import RawTable, TableEncoding
from epagcl.data.io.columns.text import MOST_SLOTS, TextColumn
from epagcl.evaluation.linear import linear_evaluation
from epagcl.evaluation.scores import Spread, spread
from epagcl.methods.propagated import Propagated
from epagcl.paper.tables import Table, markdown
from epagcl.runs.record import Provenance, provenance

EXAMPLES = Path(__file__).parent.parent / "examples" / "data"
NODES, CLASSES, SEEDS, SPLITS = 1000, 5, 3, 10
NOISE = 20  # columns that say nothing
PROTOCOL = (
    f"strict: random 10/10/80 splits 0 to {SPLITS - 1}, the same for every row; penalty and step of the classifier are "
    "chosen on validation nodes; test accuracy of propagated features (256 numbers), which need no training. Generated "
    f"tables: {NODES} nodes, {CLASSES} classes, seeds 0 to {SEEDS - 1} of graph and table. Nothing was tuned here."
)


class Score(TypedDict):
    """The accuracy of one encoding on one table: on each split, and for generated tables each seed."""

    table: str
    encoding: str
    accuracy: Spread


class Result(Provenance):
    """The content of ``results/benchmarks/encoding.json``."""

    command: str
    protocol: str
    libraries: dict[str, str]
    rows: list[Score]


class Case(NamedTuple):
    """A graph with labels, and its feature table before any encoding. ``kinds`` are those that this package detects."""

    data: Data
    frame: pd.DataFrame
    kinds: dict[str, str]


def encoding(tables: "dict[str, Callable[[], list[Case]]] | None" = None) -> Result:
    """Score all encodings of all tables.

    Args:
        tables: the graphs of each table by name; by default all.
    """
    encoders = ENCODERS | {f"skrub {name}": by for name, by in skrub_encoders().items()}
    result = Result(
        **provenance("cpu"),
        command="python -m benchmarks encoding",
        protocol=PROTOCOL,
        libraries={name: version(name) for name in ("scikit-learn", "skrub")},
        rows=[],
    )
    for table, cases in (TABLES if tables is None else tables).items():
        graphs = cases()
        for name, by in encoders.items():
            runs: list[float] = []
            for case in graphs:
                data = case.data.clone()
                data.x = by(case)
                for key in ("encoding", "raw_features", "feature_names"):
                    data.pop(key, None)
                z = Propagated(device="cpu").fit_embed(data)
                runs += linear_evaluation(z, data.y, "strict", runs=SPLITS).runs
            result["rows"].append(Score(table=table, encoding=name, accuracy=spread(runs)))
            print(f"{table}, {name}: {percent(result['rows'][-1]['accuracy'])}", flush=True)
    return result


def example(folder: str, **files: Any) -> Callable[[], list[Case]]:
    """Return a function that reads a graph of ``examples/data``. Names of files are completed."""

    def read() -> list[Case]:
        paths = {
            key: EXAMPLES / folder / value for key, value in files.items() if key in ("edges", "features", "labels")
        }
        return [_case(read_graph(**{**files, **paths}))]

    return read


def generated(columns: Callable[[np.random.Generator, np.ndarray], pd.DataFrame]) -> Callable[[], list[Case]]:
    """Return a function that generates graphs whose table is a function of the classes."""

    def generate() -> list[Case]:
        cases = []
        for seed in range(SEEDS):
            data = block_model(NODES, num_classes=CLASSES, homophily=0.6, seed=seed)
            frame = columns(np.random.default_rng(seed), data.y.numpy())
            kinds = {each["name"]: each["kind"] for each in TableEncoding.fit(RawTable("table", frame)).summary()}
            cases.append(Case(data, frame, kinds))
        return cases

    return generate


def spellings(count: int) -> np.ndarray:
    """Return words whose spelling says nothing about their number, as some encodings compare letters."""
    letters = np.random.default_rng(0).choice(list("abcdefghijklmnopqrstuvwxyz"), (count, 8))
    return np.array(["".join(word) for word in letters])


def informative_text(rng: np.random.Generator, y: np.ndarray) -> pd.DataFrame:
    """Return a text of eight words, two of which are from the topic of the class."""
    words = spellings(300)
    topics = words.reshape(-1, 20)[:CLASSES]
    return pd.DataFrame({"text": [" ".join([*rng.choice(topics[k], 2), *rng.choice(words, 6)]) for k in y]})


def informative_numbers(rng: np.random.Generator, y: np.ndarray, count: int = NOISE) -> pd.DataFrame:
    """Return numbers that depend on the class, of different scales, a tenth of them missing."""
    means = rng.normal(size=(CLASSES, count))
    values = (0.4 * means[y] + rng.normal(size=(len(y), count))) * 10.0 ** rng.integers(-2, 5, count)
    values[rng.random(values.shape) < 0.1] = np.nan
    return pd.DataFrame(values, columns=[f"n{k}" for k in range(count)])


def noise(rng: np.random.Generator, y: np.ndarray) -> pd.DataFrame:
    """Return numbers that say nothing."""
    return pd.DataFrame(rng.normal(50, 10, (len(y), NOISE)), columns=[f"noise{k}" for k in range(NOISE)])


def noisy_text(rng: np.random.Generator, y: np.ndarray) -> pd.DataFrame:
    """Return a text that says nothing."""
    return informative_text(rng, rng.permutation(y))


def balance(rng: np.random.Generator, y: np.ndarray) -> pd.DataFrame:
    """Return one column of large numbers with a heavy tail that says nothing."""
    return pd.DataFrame({"balance": rng.lognormal(8, 2, len(y)).round(2)})


def categories(rng: np.random.Generator, y: np.ndarray) -> pd.DataFrame:
    """Return a category with few values, one with many, and a date, which depend on the class."""
    known = rng.random(len(y)) < 0.4
    few = np.where(known, y, rng.integers(0, CLASSES, len(y)))
    many = 60 * np.where(rng.random(len(y)) < 0.4, y, rng.integers(0, CLASSES, len(y))) + rng.integers(0, 60, len(y))
    days = pd.to_timedelta(rng.integers(0, 2000, len(y)) + 150 * y, unit="D")
    return pd.DataFrame(
        {"city": spellings(300)[few], "shop": spellings(300)[many], "since": pd.Timestamp("2015-01-01") + days}
    )


def beside(*parts: Callable[[np.random.Generator, np.ndarray], pd.DataFrame]) -> Callable[[], list[Case]]:
    """Return a function that generates graphs whose table has the columns of all parts."""
    return generated(lambda rng, y: pd.concat([part(rng, y) for part in parts], axis=1))


TABLES: dict[str, Callable[[], list[Case]]] = {
    "transactions": example(
        "transactions", edges="payments.csv", source="payer", target="payee", features="accounts.csv", label="status"
    ),
    "citations": example("citations", edges="citations.csv", features="papers.csv", labels="areas.csv"),
    "proteins": example(
        "proteins", edges="interactions.tsv", weight="combined_score", features="proteins.tsv", labels="functions.tsv"
    ),
    "organisation": example("organisation", edges="contacts.csv", features="people.csv", label="team"),
    "text": beside(informative_text),
    "text, 20 useless numbers": beside(informative_text, noise),
    "numbers": beside(informative_numbers),
    "numbers, useless text": beside(informative_numbers, noisy_text),
    "numbers, large useless one": beside(informative_numbers, balance),
    "categories and date": beside(categories),
    "all kinds": beside(categories, informative_text, informative_numbers),
}


def _case(data: Data) -> Case:
    raw = data.raw_features.frame
    return Case(data, raw, {each["name"]: each["kind"] for each in data.encoding.summary()})


def by_epagcl(case: Case) -> Tensor:
    """Return the features of this package."""
    return TableEncoding.fit(RawTable("table", case.frame)).transform(RawTable("table", case.frame))


def by_fixed_length(case: Case) -> Tensor:
    """Return the features of this package with texts that count the same beside any number of columns."""
    fitted = TableEncoding.fit(RawTable("table", case.frame))
    columns = tuple(
        TextColumn.fit(column.name, case.frame[column.name]) if isinstance(column, TextColumn) else column
        for column in fitted.columns
    )
    return replace(fitted, columns=columns).transform(RawTable("table", case.frame))


def by_column_transformer(case: Case) -> Tensor:
    """Return standardised numbers and dates with marked gaps, one-hot categories, and tf-idf of texts."""
    frame, columns = case.frame.copy(), {kind: [] for kind in ("number", "category", "text")}
    for name, kind in case.kinds.items():
        if kind == "date":
            frame[name] = (to_dates(frame[name]) - pd.Timestamp("2000-01-01", tz="UTC")).dt.days
        group = {"date": "number", "given": "number", "boolean": "category"}.get(kind, kind)
        if group in columns:
            columns[group].append(name)
    scaled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    one_hot = OneHotEncoder(handle_unknown="ignore", max_categories=64)
    texts = [(name, TfidfVectorizer(max_features=MOST_SLOTS), name) for name in columns["text"]]
    frame[columns["text"]] = frame[columns["text"]].fillna("")
    parts = [("numbers", scaled, columns["number"]), ("categories", one_hot, columns["category"]), *texts]
    return _tensor(ColumnTransformer(parts).fit_transform(frame))


def skrub_encoders() -> dict[str, Callable[[Case], Tensor]]:
    """Return the encodings by skrub's TableVectorizer. Raise if it is not installed."""
    try:
        from skrub import TableVectorizer
    except ImportError:
        raise InputError("the comparison needs skrub; pip install skrub") from None

    def plain(case: Case) -> Tensor:
        return _tensor(SimpleImputer().fit_transform(TableVectorizer().fit_transform(case.frame)))

    def standardised(case: Case) -> Tensor:
        steps = make_pipeline(TableVectorizer(), SimpleImputer(add_indicator=True), StandardScaler())
        return _tensor(steps.fit_transform(case.frame))

    return {"TableVectorizer": plain, "TableVectorizer, standardised": standardised}


ENCODERS: dict[str, Callable[[Case], Tensor]] = {
    "epagcl": by_epagcl,
    "epagcl, texts of fixed length": by_fixed_length,
    "scikit-learn ColumnTransformer": by_column_transformer,
}


def _tensor(matrix: Any) -> Tensor:
    dense = matrix.toarray() if scipy.sparse.issparse(matrix) else matrix
    return torch.from_numpy(np.asarray(dense, dtype=np.float32))


def table(result: Result) -> str:
    """Return the accuracy of each encoding on each table as Markdown.

    Args:
        result: as :func:`encoding` returns it.
    """
    encodings = list(dict.fromkeys(row["encoding"] for row in result["rows"]))
    names = list(dict.fromkeys(row["table"] for row in result["rows"]))
    cells = {(row["table"], row["encoding"]): row["accuracy"] for row in result["rows"]}
    rows = [[name, *(percent(cells[name, each]) for each in encodings)] for name in names]
    means = [100 * sum(cells[name, each]["mean"] for name in names) / len(names) for each in encodings]
    rows.append(["mean", *(f"{mean:.1f}" for mean in means)])
    libraries = " and ".join(f"{name} {number}" for name, number in result["libraries"].items())
    note = (
        f"Test accuracy in percent of propagated features, mean ± standard deviation over {SPLITS} splits; the first "
        f"four tables are those of examples/data, the others are generated, with {SEEDS} seeds each. {libraries}, "
        f"{result['date'][:10]}."
    )
    return markdown(Table("", "Encodings of tables", ["table", *encodings], rows, note))
