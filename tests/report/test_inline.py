import base64
import io
import re

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import epagcl
from epagcl.core.errors import InputError
from epagcl.report.inline import InlineReport, show
from epagcl.report.page import page_text
from tests.report.browser import OpenPage, payload


@pytest.fixture
def z():
    return torch.randn(30, 6, generator=torch.Generator().manual_seed(0))


def test_a_map_is_a_described_picture(z, tmp_path):
    map_ = epagcl.show(z, labels=["a<b>", "_c", "$x$"] * 10, kind="pca", title="A & B")
    assert repr(map_) == "InlineMap(PCA of 30 nodes, coloured by 3 labels)"
    page = map_._repr_html_()
    assert 'alt="PCA of 30 nodes, coloured by 3 labels"' in page
    picture = Image.open(io.BytesIO(base64.b64decode(re.search(r'base64,([^"]+)"', page)[1])))
    assert min(picture.size) > 300
    names = [text.get_text() for text in map_.figure.axes[0].get_legend().get_texts()]
    assert names == ["a<b>", "\u200b_c", r"\$x\$"]
    assert map_.save(tmp_path / "map.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_numbers_have_a_scale_and_missing_classes_no_colour(z):
    assert len(show(z, labels=np.linspace(0, 1, 30)).figure.axes) == 2  # with the scale
    map_ = show(pd.DataFrame(z.numpy()), labels=torch.tensor([0, 1, -1] * 10), kind="pca")
    values = map_.figure.axes[0].collections[0].get_array()
    assert np.isnan(np.asarray(values, dtype=float)).sum() == 10
    assert len(map_.figure.axes[0].get_legend().get_texts()) == 2
    assert show(z, labels=[str(k) for k in range(30)], kind="pca").figure.axes[0].get_legend() is None  # too many
    assert repr(show(z, kind="pca")) == "InlineMap(PCA of 30 nodes)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [1, 2]}, "labels: 2 values for 30 rows of z; give one per row"),
        ({"kind": "none"}, "kind='none': choose one of auto, tsne, umap, pca"),
        ({"kind": "sphere"}, "kind='sphere': choose one of"),
    ],
)
def test_mistakes(z, arguments, message):
    with pytest.raises(InputError, match=re.escape(message)):
        show(z, **arguments)


def test_embeddings_that_cannot_be_drawn():
    with pytest.raises(InputError, match="at least two rows"):
        show(torch.ones(1, 3))
    with pytest.raises(InputError, match="not all values are finite"):
        show(torch.full((5, 3), torch.nan))


@pytest.mark.slow
def test_a_report_works_in_a_frame_without_access_to_the_notebook(browser, tmp_path):
    report = InlineReport("EPAGCL on <made>", page_text(payload()))
    assert report.save(tmp_path / "r.html").read_text(encoding="utf-8") == report.page
    notebook = f"<!doctype html><meta charset=utf-8><title>mine</title>{report._repr_html_()}"
    (tmp_path / "notebook.html").write_text(notebook, encoding="utf-8")
    opened = OpenPage(browser, tmp_path / "notebook.html")
    frame = opened.page.frames[1]
    frame.wait_for_selector("html[data-ready=yes]", state="attached")
    assert frame.locator("h1").inner_text() == "EPAGCL on made"
    assert opened.page.locator("iframe").get_attribute("title") == "EPAGCL on <made>"
    assert frame.evaluate("(() => { try { return parent.document.title; } catch { return 'none'; } })()") == "none"
    opened.close()
