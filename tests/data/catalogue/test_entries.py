"""The catalogue: names and aliases."""

import pytest

from epagcl.core.errors import InputError
from epagcl.data.catalogue.entries import find
from epagcl.data.catalogue.loading import load


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("CORA", "Cora"),
        (" citeseer ", "CiteSeer"),
        ("amazon_photo", "Amazon-Photo"),
        ("Amazon Computers", "Amazon-Computers"),
        ("photo", "Amazon-Photo"),
        ("computers", "Amazon-Computers"),
        ("CS", "Coauthor-CS"),
        ("Physics", "Coauthor-Physics"),
        ("arxiv", "ogbn-arxiv"),
        ("OGBN_ARXIV", "ogbn-arxiv"),
    ],
)
def test_names_and_aliases(written, name):
    assert find(written).name == name


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(InputError, match=r"^no graph is named 'coar'; did you mean Cora\? `epagcl datasets` lists"):
        load("coar")
    with pytest.raises(InputError, match=r"^no graph is named 'zzz'; `epagcl datasets` lists the names$"):
        load("zzz")
