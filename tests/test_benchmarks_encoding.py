import json
import sys

import numpy as np
import pytest

from benchmarks import encoding, tables
from epagcl.core.errors import InputError

PROVENANCE = {"date": "2026-01-02T03:04:05", "libraries": {"scikit-learn": "1", "skrub": "2"}}
FULL = encoding.beside(encoding.categories, encoding.informative_text, encoding.informative_numbers)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(encoding, "NODES", 120)
    monkeypatch.setattr(encoding, "SEEDS", 1)


def test_generated_tables_have_the_kinds_that_they_are_about(small):
    (case,) = FULL()
    kinds = case.kinds
    assert (kinds["city"], kinds["shop"], kinds["since"], kinds["text"], kinds["n0"]) == (
        *("category", "category", "date", "text"),
        "number",
    )
    assert len(set(encoding.spellings(300))) == 300


def test_encodings_differ_in_the_length_of_texts_only(small):
    (case,) = encoding.beside(encoding.informative_text, encoding.noise)()
    ours, fixed = (by(case).to_dense().numpy() for by in (encoding.by_epagcl, encoding.by_fixed_length))
    assert np.array_equal(ours[:, -encoding.NOISE :], fixed[:, -encoding.NOISE :])
    ratio = np.linalg.norm(ours[:, : -encoding.NOISE], axis=1) / np.linalg.norm(fixed[:, : -encoding.NOISE], axis=1)
    assert ratio.min() == pytest.approx(ratio.max(), rel=1e-4)
    assert ratio.min() > 2


def test_the_column_transformer_standardises_numbers_and_marks_gaps(small):
    (case,) = encoding.beside(encoding.informative_numbers)()
    x = encoding.by_column_transformer(case).numpy()
    assert x.shape == (120, 2 * encoding.NOISE)
    assert np.allclose(x.std(0), 1, atol=1e-3)


def test_examples_are_read_with_their_raw_tables():
    (case,) = encoding.TABLES["transactions"]()
    assert list(case.frame) == ["balance", "age", "city", "sector", "opened", "verified"]
    assert encoding.by_column_transformer(case).shape[0] == case.data.num_nodes


def test_skrub_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skrub", None)
    with pytest.raises(InputError, match="the comparison needs skrub; pip install skrub"):
        encoding.skrub_encoders()


def test_the_comparison_runs_end_to_end(small, monkeypatch):
    monkeypatch.setattr(encoding, "SPLITS", 2)
    monkeypatch.setattr(encoding, "skrub_encoders", dict)
    monkeypatch.setattr(encoding, "version", lambda name: "1")
    result = encoding.encoding({"all": FULL})
    assert [row["encoding"] for row in result["rows"]] == list(encoding.ENCODERS)
    assert all(len(row["accuracy"]["runs"]) == 2 for row in result["rows"])


def test_the_table_has_a_row_per_table_and_their_mean():
    def row(table, name, mean):
        return {
            "table": table,
            "encoding": name,
            "accuracy": {"mean": mean, "std": 0.01, "runs": [mean - 0.01, mean + 0.01]},
        }

    rows = [row("a", "x", 0.5), row("a", "y", 0.6), row("b", "x", 0.7), row("b", "y", 0.4)]
    text = encoding.table({**PROVENANCE, "rows": rows})
    assert "| a | 50.0 ± 1.0 | 60.0 ± 1.0 |" in text
    assert "| mean | 60.0 | 50.0 |" in text
    assert "scikit-learn 1 and skrub 2" in " ".join(text.split())


def test_what_the_docs_say_of_the_measured_encodings_holds():
    """docs/own-graphs.md and the docstring of ``TextColumn.beside``."""
    result = json.loads(tables.ENCODING.read_text(encoding="utf-8"))
    mean = {(row["table"], row["encoding"]): row["accuracy"]["mean"] for row in result["rows"]}
    names = {name for name, _ in mean}
    ours, fixed = "epagcl", "epagcl, texts of fixed length"
    average = {each: np.mean([mean[name, each] for name in names]) for each in {each for _, each in mean}}
    assert max(average, key=average.get) == ours
    assert mean["text", "skrub TableVectorizer, standardised"] > mean["text", ours]
    assert mean["text, 20 useless numbers", ours] - mean["text, 20 useless numbers", fixed] > 0.1
    assert 0 < mean["numbers, useless text", fixed] - mean["numbers, useless text", ours] < 0.06
