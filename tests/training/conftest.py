import pytest

from epagcl.data import block_model


@pytest.fixture
def easy_graph():
    """Classes that can be learned, so that the lowest validation loss is not in the first epoch."""
    return block_model(150, num_classes=3, num_features=40, topic_words=10, topic_share=0.7, seed=1)
