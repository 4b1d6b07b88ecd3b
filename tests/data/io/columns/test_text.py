"""Free text: hashed words with tf-idf weights."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch_geometric.data import Data

import epagcl
from epagcl.data.io.columns.encoding import RawTable, TableEncoding
from epagcl.data.io.columns.text import FEWEST_SLOTS, MOST_LENGTH, MOST_SLOTS, TextColumn


def test_without_collisions_similarities_are_those_of_tf_idf():
    values = pd.Series(["graph neural network", "neural graph", "a protein network", "cat"])
    column = TextColumn.fit("t", values)
    features = column.transform(values)
    assert features.shape == (4, FEWEST_SLOTS)
    words = sorted(set(" ".join(values).split()))
    assert (TextColumn.fit("t", pd.Series(words)).transform(pd.Series(words)).sum(axis=0) > 0).sum() == len(words)
    expected = TfidfVectorizer(token_pattern=r"\b\w+\b").fit_transform(values)
    similarity = (features @ features.T).toarray() / column.length**2
    assert np.allclose(similarity, (expected @ expected.T).toarray(), atol=1e-5)
    assert np.isclose(column.length, ((3 + 2 + 3 + 1) / 4) ** 0.5)


def test_missing_and_unseen_texts():
    column = TextColumn.fit("t", pd.Series(["one two three", None]))
    rows = column.transform(pd.Series([None, "", "four"])).toarray()
    assert rows[:2].sum() == 0
    assert np.isclose(np.linalg.norm(rows[2]), 3**0.5)


def test_the_number_of_slots_follows_the_words():
    many = pd.Series([" ".join(f"w{k * 50 + j}" for j in range(50)) for k in range(100)])
    assert len(TextColumn.fit("t", many).idf) == MOST_SLOTS
    assert TextColumn.fit("t", many).length == MOST_LENGTH
    assert len(TextColumn.fit("t", pd.Series(["a b", "b c"])).idf) == FEWEST_SLOTS


def test_beside_other_columns_a_text_is_heavier():
    texts = pd.Series(["one two three four", "two five six seven", "one six eight nine"] * 10)
    alone = TextColumn.fit("t", texts)
    assert alone.length == 2  # four words
    numbers = np.random.default_rng(0).normal(size=(30, 12))
    flags = scipy.sparse.csr_array((np.arange(60).reshape(30, 2) % 3 == 0).astype(float))
    variance = numbers.var(axis=0).sum() + flags.toarray().var(axis=0).sum()
    assert alone.beside([numbers, flags]).length == pytest.approx((3 * variance) ** 0.5, abs=1e-5)
    assert alone.beside([numbers[:, :1]]).length == 2
    assert alone.beside([]).length == 2
    frame = pd.DataFrame({"t": texts, **{f"x{k}": numbers[:, k] for k in range(12)}})
    encoding = TableEncoding.fit(RawTable("f", frame))
    x = encoding.transform(RawTable("f", frame)).to_dense()
    assert float(x[:, :64].norm(dim=1)[0]) == pytest.approx(encoding.columns[0].length, abs=1e-4)
    assert encoding.columns[0].length > 5


def told_by_text_and_by_numbers(numbers, seed=0, nodes=600):
    """A table whose text tells one label and whose numbers tell another, and edges by both."""
    generator = np.random.default_rng(seed)
    by_text, by_numbers = generator.integers(0, 3, (2, nodes))
    words = np.array([f"w{k}" for k in range(300)])
    text = [
        " ".join([*words[generator.integers(60 * label, 60 * label + 60, 2)], *words[generator.integers(180, 300, 6)]])
        for label in by_text
    ]
    x = generator.normal(0, 1.2, (3, numbers))[by_numbers] + generator.normal(size=(nodes, numbers))
    edges = []
    for labels in (by_text, by_numbers):
        ends = generator.integers(0, nodes, (2, 40 * nodes))
        keep = (labels[ends[0]] == labels[ends[1]]) | (generator.random(40 * nodes) < 0.2)
        edges.append(ends[:, keep & (ends[0] != ends[1])][:, : 2 * nodes])
    frame = pd.DataFrame({"id": range(nodes), "note": text, **{f"x{k}": x[:, k] for k in range(numbers)}})
    return np.hstack(edges).T.tolist(), frame, by_text, by_numbers


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [2, 20])
def test_neither_a_text_nor_the_numbers_drown(numbers):
    """Both labels can be told about as well as with the best of several lengths of the text."""
    edges, frame, *labels = told_by_text_and_by_numbers(numbers)
    data = epagcl.from_tables(edges, frame)
    accuracies = []
    for factor in (1.0, 0.3, 0.6, 1.7, 3.0):
        columns = [replace(c, length=factor * c.length) if c.kind == "text" else c for c in data.encoding.columns]
        x = TableEncoding(tuple(columns)).transform(data.raw_features)
        graph = Data(x=x, edge_index=data.edge_index)
        z = epagcl.Propagated(dim=64, device="cpu").fit(graph).embed(graph)
        accuracies.append([epagcl.linear_evaluation(z, torch.tensor(y), runs=3).mean for y in labels])
    means = np.mean(accuracies, axis=1)
    assert means[0] > max(means) - 0.05
    assert accuracies[0][1] > max(each for _, each in accuracies) - 0.08
    assert numbers == 2 or accuracies[0][0] > accuracies[1][0] + 0.08  # the lightest text is drowned
