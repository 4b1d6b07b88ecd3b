import json
import logging
from types import SimpleNamespace

import pytest
import torch

from epagcl.core.errors import InputError
from epagcl.losses.infonce import tiles as tiles_module
from epagcl.losses.infonce.loss import PRECISIONS
from epagcl.losses.infonce.tiles import CANDIDATES, INTERPRETED, MEASURED, Tiles, tiles_for

CUDA = torch.device("cuda")
GPU = "Imaginary GPU"


class OutOfResources(Exception):
    """An error with the name of Triton's."""


class Launch:
    """A kernel that takes ``seconds(tiles)`` by its own clock."""

    def __init__(self, seconds):
        self.seconds, self.now, self.launched = seconds, 0.0, []

    def __call__(self, tiles):
        self.launched.append(tiles)
        self.now += self.seconds(tiles)
        return torch.empty(0)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A GPU that does not exist, without measured tiles. A launch advances the clock."""

    def use(launch):
        monkeypatch.setattr(tiles_module, "time", SimpleNamespace(perf_counter=lambda: launch.now))
        return launch

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: GPU)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(tiles_module, "MEASURED", tmp_path / "measured.json")
    tiles_module._choices.cache_clear()
    yield use
    tiles_module._choices.cache_clear()


def never(tiles):
    raise AssertionError(f"{tiles} launched")


def fastest_is(best):
    return lambda tiles: 1e-3 if tiles == best else 2e-3


def test_without_a_gpu_the_tiles_are_those_of_the_interpreter():
    assert tiles_for("sums", "fp32", 32, 100, torch.device("cpu"), never) == INTERPRETED


def test_tiles_as_text_and_back():
    assert str(Tiles(128, 64, 8, 3)) == "128x64/8/3"
    assert Tiles.parse("128x64/8/3") == Tiles(128, 64, 8, 3)


def valid(kernel, tiles):
    return (
        all(type(n) is int and n >= 1 for n in vars(tiles).values())
        and all(16 <= n <= 128 and n & (n - 1) == 0 for n in (tiles.rows, tiles.columns))
        and tiles.warps in (1, 2, 4, 8, 16)
        and (kernel != "sums" or tiles.rows % tiles.columns == 0)
    )


@pytest.mark.parametrize("kernel", ["sums", "gather"])
def test_candidates_are_valid_and_the_last_fits_any_gpu(kernel):
    assert valid(kernel, INTERPRETED)
    assert set(CANDIDATES[kernel]) == set(PRECISIONS)
    for candidates in CANDIDATES[kernel].values():
        assert all(valid(kernel, tiles) for tiles in candidates)
        assert len(set(candidates)) == len(candidates)
        assert candidates[-1] == Tiles(32, 32, 4, 1)


def test_measured_tiles_are_valid():
    for gpu, choices in json.loads(MEASURED.read_text(encoding="utf-8")).items():
        for key, name in choices.items():
            kernel, precision, width, size = key.split()
            assert kernel in CANDIDATES, (gpu, key)
            assert precision in PRECISIONS, (gpu, key)
            assert int(width) in (16, 32, 64, 128, 256, 512), (gpu, key)
            assert size in tiles_module.SIZES, (gpu, key)
            assert valid(kernel, Tiles.parse(name)), (gpu, key)


@pytest.mark.parametrize("place", [0, 2, -1])
@pytest.mark.parametrize("kernel", ["sums", "gather"])
def test_the_fastest_candidate_is_chosen(gpu, kernel, place):
    best = CANDIDATES[kernel]["fp16"][place]
    launch = gpu(Launch(fastest_is(best)))
    assert tiles_for(kernel, "fp16", 64, 1000, CUDA, launch) == best
    assert set(launch.launched) == set(CANDIDATES[kernel]["fp16"])


def test_a_slow_first_launch_does_not_count(gpu):
    best = CANDIDATES["sums"]["fp32"][1]
    compiled = set()

    def seconds(tiles):
        first = tiles not in compiled
        compiled.add(tiles)
        return 5.0 if first and tiles == best else fastest_is(best)(tiles)

    assert tiles_for("sums", "fp32", 64, 1000, CUDA, gpu(Launch(seconds))) == best


def test_candidates_that_do_not_fit_are_skipped(gpu):
    fits = CANDIDATES["gather"]["fp32"][-2:]

    def seconds(tiles):
        if tiles not in fits:
            raise OutOfResources
        return 1e-3 if tiles == fits[1] else 2e-3

    assert tiles_for("gather", "fp32", 512, 1000, CUDA, gpu(Launch(seconds))) == fits[1]


def test_other_errors_are_raised(gpu):
    def seconds(tiles):
        raise RuntimeError("CUDA error: an illegal memory access")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        tiles_for("gather", "fp32", 64, 1000, CUDA, gpu(Launch(seconds)))
    assert not tiles_module.cache_file().exists()


def test_a_choice_is_saved_in_the_cache(gpu, tmp_path):
    best = CANDIDATES["sums"]["bf16"][3]
    assert tiles_for("sums", "bf16", 64, 1000, CUDA, gpu(Launch(fastest_is(best)))) == best
    assert tiles_for("sums", "bf16", 64, 1000, CUDA, never) == best
    assert tiles_module.cache_file() == tmp_path / "epagcl" / "tiles.json"
    assert json.loads(tiles_module.cache_file().read_text()) == {GPU: {"sums bf16 64 small": str(best)}}
    tiles_module._choices.cache_clear()  # as in a new process
    assert tiles_for("sums", "bf16", 64, 1000, CUDA, never) == best


def test_each_kernel_precision_width_and_size_class_has_its_own_choice(gpu):
    requests = [("sums", "fp16", 64, 8192), ("gather", "fp16", 64, 8192), ("sums", "bf16", 64, 8192)]
    requests += [("sums", "fp16", 128, 8192), ("sums", "fp16", 64, 8193), ("sums", "fp16", 64, 65_537)]
    for place, (kernel, precision, width, size) in enumerate(requests):
        best = CANDIDATES[kernel][precision][place]
        assert tiles_for(kernel, precision, width, size, CUDA, gpu(Launch(fastest_is(best)))) == best
    tiles_module._choices.cache_clear()
    for place, (kernel, precision, width, size) in enumerate(requests):
        assert tiles_for(kernel, precision, width, size, CUDA, never) == CANDIDATES[kernel][precision][place]
    assert tiles_for("sums", "fp16", 64, 2, CUDA, never) == CANDIDATES["sums"]["fp16"][0]  # also of size class small


def test_choices_of_other_gpus_stay_in_the_cache(gpu):
    other = {"Other GPU": {"sums fp16 64 small": "64x64/4/2"}}
    tiles_module.cache_file().parent.mkdir(parents=True)
    tiles_module.cache_file().write_text(json.dumps(other))
    best = CANDIDATES["sums"]["fp16"][0]
    assert tiles_for("sums", "fp16", 64, 1000, CUDA, gpu(Launch(fastest_is(best)))) == best
    assert json.loads(tiles_module.cache_file().read_text()) == {**other, GPU: {"sums fp16 64 small": str(best)}}


def test_measured_tiles_take_precedence_over_the_cache(gpu):
    tiles_module.cache_file().parent.mkdir(parents=True)
    key, other = "sums fp16 64 small", "gather fp16 64 small"
    tiles_module.cache_file().write_text(json.dumps({GPU: {key: "32x32/4/1", other: "64x32/4/2"}}))
    tiles_module.MEASURED.write_text(json.dumps({GPU: {key: "128x64/8/3"}}))
    assert tiles_for("sums", "fp16", 64, 1000, CUDA, never) == Tiles(128, 64, 8, 3)
    assert tiles_for("gather", "fp16", 64, 1000, CUDA, never) == Tiles(64, 32, 4, 2)


def test_a_cache_that_cannot_be_written_is_a_warning(gpu, caplog):
    tiles_module.cache_file().parent.write_text("a file where the folder should be")
    best = CANDIDATES["sums"]["fp16"][1]
    with caplog.at_level(logging.WARNING, logger="epagcl"):
        assert tiles_for("sums", "fp16", 64, 1000, CUDA, gpu(Launch(fastest_is(best)))) == best
    assert "cannot be written" in caplog.text
    assert tiles_for("sums", "fp16", 64, 1000, CUDA, never) == best  # remembered in this process


def test_choosing_tiles_during_graph_capture_is_an_error(gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="must run once before it is captured"):
        tiles_for("sums", "fp16", 64, 1000, CUDA, never)


def test_the_cache_is_in_the_home_folder_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tiles_module.cache_file() == tmp_path / ".cache" / "epagcl" / "tiles.json"


def test_a_damaged_cache_is_replaced(gpu):
    tiles_module.cache_file().parent.mkdir(parents=True)
    tiles_module.cache_file().write_text("{half")
    best = CANDIDATES["sums"]["fp16"][2]
    assert tiles_for("sums", "fp16", 64, 100, CUDA, gpu(Launch(fastest_is(best)))) == best
    assert json.loads(tiles_module.cache_file().read_text()) == {GPU: {"sums fp16 64 small": str(best)}}


def test_an_error_if_no_candidate_fits_the_gpu(gpu):
    def launch(tiles):
        raise OutOfResources

    launch.now = 0.0
    with pytest.raises(InputError, match="no tiles of the loss's kernels fit this GPU; use impl='tiled'"):
        tiles_for("sums", "fp16", 64, 100, CUDA, gpu(launch))
