import json

import numpy as np
import pytest

from epagcl.core.errors import InputError
from epagcl.data import OnDiskGraph
from epagcl.data.disk.layout import index_type, is_graph_folder
from tests.data.disk.test_graph import example


def test_a_folder_is_a_graph_by_its_manifest(tmp_path):
    assert not is_graph_folder(tmp_path)
    assert is_graph_folder(OnDiskGraph.write(example(), tmp_path / "g").path)


def test_node_numbers_are_int32_as_far_as_they_reach():
    assert index_type(2**31 - 1) is np.int32
    assert index_type(2**31) is np.int64


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda g: (g / "manifest.json").unlink(), "has no manifest.json; ingest the graph again"),
        (lambda g: (g / "manifest.json").write_text("{"), "manifest.json: damaged"),
        (lambda g: (g / "manifest.json").write_text("{}"), "not the manifest of a graph"),
        (lambda g: edit(g, version=2), "format version 2, and this epagcl reads 1; ingest the graph again, or update"),
        (lambda g: edit(g, nodes=5), r"indptr\.npy: 5 entries instead of 6"),
        (lambda g: (g / "indices.npy").unlink(), r"indices\.npy: no such file; ingest the graph again"),
        (lambda g: (g / "indices.npy").write_bytes(b"x"), r"indices\.npy: damaged \(1 bytes instead of"),
        (lambda g: np.save(g / "indptr.npy", np.zeros((5, 1))), r"indptr\.npy: damaged \(float64 \(5, 1\) instead of"),
    ],
)
def test_damage_is_told_in_one_line(tmp_path, damage, expected):
    damage(OnDiskGraph.write(example(), tmp_path / "g").path)
    with pytest.raises(InputError, match=expected):
        OnDiskGraph.open(tmp_path / "g")


def edit(folder, **values):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | values))
