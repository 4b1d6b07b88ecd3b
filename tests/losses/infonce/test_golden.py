"""The losses of whole trainings, epoch by epoch, with every implementation of InfoNCE.

``golden.json`` has the losses of 50 epochs on ``demo`` by the dense formula. To write it, run
``python -m tests.losses.infonce.test_golden``.
"""

import json
from functools import partial
from pathlib import Path

import pytest
import torch

import epagcl
from epagcl import EPAGCL
from epagcl.data import block_model
from epagcl.losses.infonce.loss import info_nce_stacked

SETTINGS = {"hidden": 64, "dim": 32, "projection": 32}
GOLDEN = Path(__file__).parent / "golden.json"

# Adam carries the differences of one epoch into the next. The tolerances are for float32 sums in another order, for
# float32 made of fp16 halves, and for rows rounded to 11 or 8 bits (where the network's products are TF32).
TILED, FP32, FP16, BF16 = 1e-4, 1e-3, 1e-2, 3e-2


@pytest.fixture
def losses_of(monkeypatch):
    """Train EPAGCL with an implementation of the loss, and return the loss of each epoch."""

    def train(impl, data, device="cpu", **settings):
        monkeypatch.setattr("epagcl.methods.contrast.info_nce_stacked", partial(info_nce_stacked, impl=impl))
        model = EPAGCL(device=device, **SETTINGS | settings).fit(data)
        return [row["loss"] for row in model.history_]

    return train


@pytest.fixture(scope="module")
def data():
    return block_model(600, num_classes=4, num_features=300, topic_words=60, seed=2)


@pytest.mark.slow
def test_tiled_trains_like_dense(losses_of, data):
    dense, tiled = (losses_of(impl, data, epochs=50) for impl in ("dense", "tiled"))
    assert dense[-1] < dense[0] - 0.5  # it learns
    assert tiled == pytest.approx(dense, rel=0, abs=TILED)


@pytest.mark.slow
def test_tiled_follows_the_golden_losses_of_demo(losses_of):
    golden = json.loads(GOLDEN.read_text())
    assert golden[-1] < golden[0] - 0.5
    assert losses_of("tiled", epagcl.load("demo"), epochs=50) == pytest.approx(golden, rel=0, abs=TILED)


@pytest.mark.slow
def test_bf16_follows_the_golden_losses_of_demo(losses_of, use_bf16):
    losses = losses_of("tiled", epagcl.load("demo"), epochs=50, precision="bf16")
    golden = json.loads(GOLDEN.read_text())
    assert losses != pytest.approx(golden, rel=0, abs=TILED)  # it did compute in bf16
    assert losses == pytest.approx(golden, rel=0, abs=BF16)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="trains on a GPU")
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", FP32), ("tf32", FP16), ("fp16", FP16), ("bf16", BF16)])
def test_triton_follows_the_golden_losses_of_demo(losses_of, untimed_tiles, precision, tolerance):
    golden = json.loads(GOLDEN.read_text())
    triton = losses_of("triton", epagcl.load("demo"), device="cuda", epochs=50, precision=precision)
    assert triton == pytest.approx(golden, rel=0, abs=tolerance)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")  # by the interpreter, on unused rows
@pytest.mark.parametrize("batch_size", [0, 8])
def test_kernels_train_like_plain_torch(losses_of, use_triton, untimed_tiles, device, batch_size):
    pytest.importorskip("triton")
    data = block_model(20, num_classes=2, num_features=25, topic_words=8, words_per_node=6, seed=3)
    settings = {"hidden": 16, "dim": 8, "projection": 8, "epochs": 3, "precision": "fp32", "batch_size": batch_size}
    use_triton(False)
    expected = losses_of("tiled", data, device.type, **settings)
    use_triton(True)
    assert losses_of("triton", data, device.type, **settings) == pytest.approx(expected, rel=0, abs=TILED)


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("epagcl.methods.contrast.info_nce_stacked", partial(info_nce_stacked, impl="dense"))
        model = EPAGCL(device="cpu", precision="fp32", epochs=50, **SETTINGS).fit(epagcl.load("demo"))
    GOLDEN.write_text(json.dumps([row["loss"] for row in model.history_]) + "\n")
