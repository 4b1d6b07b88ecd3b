import pytest

from epagcl.data import block_model


@pytest.fixture
def named():
    """A graph with names of feature columns."""
    data = block_model(60, num_classes=3, num_features=12, topic_words=4, words_per_node=3, seed=3)
    data.feature_names = [f"word {k}" for k in range(12)]
    return data
