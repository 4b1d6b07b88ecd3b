"""Inputs that once ended in a traceback, or in a wrong result without a word."""

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse
import torch

import epagcl
from epagcl.core.errors import InputError
from epagcl.data.io.npz import read_npz
from epagcl.epr.change import theorem_3_3_conditions, theorem_3_3_repaired
from epagcl.epr.structure import edge_similarity, structure_score
from epagcl.runs import read_embeddings
from epagcl.tasks import align

EDGES = "source,target\n0,1\n1,2\n"


def refused(action, *arguments, **options):
    """The one line with which an action is refused."""
    with pytest.raises(InputError) as caught:
        action(*arguments, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    return str(caught.value)


@pytest.mark.parametrize("form", ["lil", "dok"])
def test_sparse_matrices_that_scipy_cannot_read_back(tmp_path, form):
    (tmp_path / "e.csv").write_text(EDGES)
    arrays = {"format": np.array(form.encode()), "shape": np.array([3, 3]), "data": np.ones(3), "row": np.arange(3)}
    np.savez(tmp_path / "x.npz", **arrays)
    assert "x.npz" in refused(epagcl.read_graph, edges=tmp_path / "e.csv", features=tmp_path / "x.npz")


@pytest.mark.parametrize("form", ["lil", "dok"])
def test_sparse_matrices_in_memory_are_converted(form):
    x = scipy.sparse.eye_array(3, format=form)
    data = epagcl.from_tables([(0, 1), (1, 2)], x)
    assert data.x.to_dense().tolist() == np.eye(3).tolist()


def test_an_encrypted_archive(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, x=np.eye(3), edge_index=np.array([[0, 1], [1, 2]]))
    content = bytearray(buffer.getvalue())
    for k in range(len(content) - 4):  # the flag of encryption in the header of each member
        if content[k : k + 4] == b"PK\x03\x04":
            content[k + 6] |= 1
        elif content[k : k + 4] == b"PK\x01\x02":
            content[k + 8] |= 1
    (tmp_path / "g.npz").write_bytes(content)
    assert zipfile.ZipFile(tmp_path / "g.npz").infolist()[0].flag_bits & 1
    assert "g.npz" in refused(read_npz, tmp_path / "g.npz")


def test_a_field_longer_than_the_limit_of_python_csv(tmp_path):
    (tmp_path / "e.csv").write_text("a" * 140_000 + ",1\n1,2\n")
    np.save(tmp_path / "x.npy", np.eye(3))
    assert "e.csv" in refused(epagcl.read_graph, edges=tmp_path / "e.csv", features=tmp_path / "x.npy")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_not_read_as_other_text(tmp_path, encoding):
    (tmp_path / "e.csv").write_bytes(EDGES.encode(encoding))
    np.save(tmp_path / "x.npy", np.eye(3))
    assert "e.csv" in refused(epagcl.read_graph, edges=tmp_path / "e.csv", features=tmp_path / "x.npy")


@pytest.mark.parametrize("alpha", [1e-30, 1e-8, 0.0, 1.0])
def test_a_teleport_probability_that_would_take_forever(small_graph, alpha):
    assert "alpha" in refused(lambda: epagcl.MVGRL(epochs=1, dim=4, alpha=alpha, device="cpu").fit(small_graph))


def test_ids_in_scientific_notation_are_text(tmp_path):
    (tmp_path / "e.csv").write_text("source,target\n1,2\n2,10\n1e1,1\n")
    (tmp_path / "f.csv").write_text("id,a\n1,0.5\n2,0.25\n10,0.125\n1e1,0.75\n")
    data = epagcl.read_graph(edges=tmp_path / "e.csv", features=tmp_path / "f.csv")
    ids = list(data.node_ids)
    pairs = {frozenset((ids[i], ids[j])) for i, j in data.edge_index.T.tolist()}
    assert pairs == {frozenset(pair) for pair in (("1", "2"), ("2", "10"), ("1e1", "1"))}


@pytest.mark.parametrize(
    "call",
    [
        lambda edges, n: epagcl.edge_probabilities(edges, n),
        lambda edges, n: epagcl.structural_features(edges, n),
        lambda edges, n: theorem_3_3_conditions(edges, n),
        lambda edges, n: theorem_3_3_repaired(edges, n, [(0, 2)]),
        lambda edges, n: structure_score(edges, n, torch.eye(3)),
        lambda edges, n: edge_similarity(edges, n, torch.eye(3)),
    ],
)
def test_a_number_of_nodes_is_a_whole_number(call):
    edges = torch.tensor([[0, 1], [1, 2]])
    call(edges, 3.0)
    for number in (-0.0, 1.5, float("nan"), 2**70, "3", -1):
        with pytest.raises(InputError):
            call(edges, number)


def test_ids_with_halves_of_characters_are_read_and_matched(tmp_path):
    np.save(tmp_path / "z.npy", np.eye(2))
    (tmp_path / "z.ids.txt").write_bytes(b"a\xff\nb\n")
    z, ids = read_embeddings(tmp_path / "z.npy")
    assert ids == ["a\udcff", "b"]
    assert align(z, z[::-1], ids=ids, previous_ids=ids[::-1]).common == 2
