"""The figures of a run as PNG files."""

import pytest
from PIL import Image

from epagcl.report.figures import run_figures
from tests.report.browser import map_payload, run_payload

HISTORY = [{"epoch": 1, "loss": 3.0}, {"epoch": 2, "loss": 2.0}, {"epoch": 3, "loss": 1.5}]


def size(path):
    with Image.open(path) as image:
        return image.size


def test_a_trained_run_has_both_figures(tmp_path):
    run_figures(tmp_path, HISTORY, run_payload())
    assert size(tmp_path / "training.png") == (960, 540)
    assert size(tmp_path / "embedding.png") == (780, 780)


def test_an_untrained_run_has_no_training_curve_and_a_run_without_map_no_map(tmp_path):
    run_figures(tmp_path, [], run_payload(map=None))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("column", [0, 2])
def test_the_map_is_drawn_with_and_without_labels(tmp_path, column):
    map_ = map_payload()
    map_["columns"] = [map_["columns"][column]]  # label, degree
    run_figures(tmp_path, [], run_payload(map=map_))
    with Image.open(tmp_path / "embedding.png") as image:
        colours = {colour for count, colour in image.convert("RGB").getcolors(2**20) if count > 100}
    assert ((43, 108, 176) in colours) == (column == 2)  # one colour without labels
