import signal
import threading

import pytest

from epagcl import EPAGCL
from epagcl.training.interrupts import deferred_interrupts
from tests.training.common import SMALL, same_weights


@pytest.fixture(autouse=True)
def default_handler():
    """Python's handler of SIGINT, which a background process does not have."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def test_the_first_interrupt_is_deferred_and_the_second_is_not():
    with deferred_interrupts(enabled=True) as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_nothing_is_deferred_if_disabled():
    with deferred_interrupts(enabled=False) as interrupted:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not interrupted()


def test_the_handler_of_the_program_is_kept():
    calls = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    try:
        with deferred_interrupts(enabled=True) as interrupted:
            signal.raise_signal(signal.SIGINT)
            assert not interrupted()
        assert calls == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, previous)


def test_nothing_is_deferred_in_another_thread():
    results = []

    def run():
        with deferred_interrupts(enabled=True) as interrupted:
            results.append(interrupted())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert results == [False]


def test_an_interrupt_during_a_callback_keeps_the_last_checkpoint(tmp_path, small_graph):
    def interrupt(row):
        if row["epoch"] == 3:
            signal.raise_signal(signal.SIGINT)

    checkpoint = tmp_path / "c.safetensors"
    with pytest.raises(KeyboardInterrupt):
        EPAGCL(epochs=6, **SMALL).fit(small_graph, checkpoint=checkpoint, callback=interrupt)
    assert not checkpoint.exists()  # none was due before the interrupt


def test_an_interrupt_during_an_epoch_saves_the_state_after_it(tmp_path, small_graph, monkeypatch):
    original = EPAGCL.loss

    def loss(self, network, graph, prepared, epoch):
        if epoch == 3:
            signal.raise_signal(signal.SIGINT)
        return original(self, network, graph, prepared, epoch)

    checkpoint = tmp_path / "c.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(EPAGCL, "loss", loss)
        with pytest.raises(KeyboardInterrupt):
            EPAGCL(epochs=6, **SMALL).fit(small_graph, checkpoint=checkpoint)
    resumed = EPAGCL(epochs=6, **SMALL).fit(small_graph, checkpoint=checkpoint, resume=True)
    assert same_weights(resumed, EPAGCL(epochs=6, **SMALL).fit(small_graph))
