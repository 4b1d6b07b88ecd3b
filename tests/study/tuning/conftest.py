import pytest

from epagcl.data import block_model

SMALL = {"epochs": 4, "hidden": 8, "dim": 6, "projection": 6, "device": "cpu"}


@pytest.fixture(scope="session")
def graph():
    """600 nodes of 3 classes: 60 for training, 60 for validation."""
    return block_model(600, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=3)


@pytest.fixture
def small():
    """Settings that train in milliseconds."""
    return dict(SMALL)


@pytest.fixture
def judged(monkeypatch):
    """In place of training: trials are judged by a function of the first model, which may report or raise."""
    from epagcl.study.tuning.criterion import Criterion, Outcome

    def use(score, looks=()):
        def judge(self, models, watch, report):
            for epoch in looks:
                report(0, epoch, score(models[0]))
            return Outcome([score(models[0])] * len(models), models[0].epochs)

        monkeypatch.setattr(Criterion, "judge", judge)

    return use
