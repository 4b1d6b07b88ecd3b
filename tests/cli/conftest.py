"""Files and settings that the tests of commands share."""

import numpy as np
import pandas as pd
import pytest

from epagcl.data import block_model

#: Small widths, and a map by principal components: t-SNE of the demo takes seconds.
SMALL = ["--epochs", "2", "--hidden", "16", "--dim", "8", "--projection", "8", "--device", "cpu", "--map", "pca"]
FAST = ["--method", "epagcl", *SMALL]


@pytest.fixture
def files(tmp_path):
    """Write a small graph as an edge list with string ids, features and labels."""
    data = block_model(120, num_classes=3, num_features=30, topic_words=10, words_per_node=6, seed=1)
    ids = np.array([f"user-{k:03d}" for k in range(120)])
    row, col = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    pd.DataFrame({"source": ids[row], "target": ids[col]}).to_csv(tmp_path / "e.csv", index=False)
    table = pd.DataFrame(data.x.to_dense().numpy()).add_prefix("w")
    table.insert(0, "id", ids)
    table.to_csv(tmp_path / "f.csv", index=False)
    pd.DataFrame({"id": ids, "label": np.array(["red", "green", "blue"])[data.y]}).to_csv(
        tmp_path / "l.csv", index=False
    )
    np.save(tmp_path / "f.npy", data.x.to_dense().numpy())
    (tmp_path / "ids.txt").write_text("\n".join(ids) + "\n")
    return tmp_path


def assert_refused(run, arguments, message):
    """Run a command, and check that it is refused in one line with a message."""
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
