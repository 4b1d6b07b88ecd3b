import signal
import threading

import pytest

from epagcl import EPAGCL
from epagcl.core import termination
from epagcl.training.interrupts import deferred_interrupts
from tests.training.common import SMALL, same_weights


@pytest.fixture(autouse=True)
def default_handlers(monkeypatch):
    """The handlers of the command line in a terminal; a background process has others."""

    def end(code):
        raise SystemExit(code)

    monkeypatch.setattr(termination.os, "_exit", end)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.signal(signal.SIGTERM, termination.end_in_one_line)
    yield
    signal.signal(signal.SIGINT, previous)
    signal.signal(signal.SIGTERM, before)


def test_the_first_interrupt_is_deferred_and_the_second_is_not():
    def block():
        with deferred_interrupts(enabled=True) as interrupted:
            assert not interrupted()
            signal.raise_signal(signal.SIGINT)
            assert interrupted()
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second one was deferred, too")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_takes_effect_at_the_end_of_the_block_however_it_ends():
    def block(error):
        with deferred_interrupts(enabled=True) as interrupted:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # timeout(1) sends two
            assert interrupted()
            if error is not None:
                raise error

    for error in (None, KeyboardInterrupt(), RuntimeError("a compiler was ended, too")):
        signal.signal(signal.SIGTERM, termination.end_in_one_line)
        with pytest.raises(SystemExit) as ended:
            block(error)
        assert ended.value.code == 143


def test_errors_without_a_signal_stay():
    with pytest.raises(RuntimeError, match="wrong"), deferred_interrupts(enabled=True):
        raise RuntimeError("wrong")


def test_sigterm_is_not_deferred_on_several_ranks(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with deferred_interrupts(enabled=True):
        assert signal.getsignal(signal.SIGTERM) is termination.end_in_one_line
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler


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
