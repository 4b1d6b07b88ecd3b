"""Free text: hashed words with tf-idf weights."""

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer

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
