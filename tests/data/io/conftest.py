"""Fixtures of the tests of readers."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return a function that writes files into an empty folder, which is the current one, and returns their names."""
    monkeypatch.chdir(tmp_path)

    def write(**contents):
        names = {}
        for part, (name, content) in contents.items():
            names[part] = name
            if isinstance(content, np.ndarray):
                np.save(name, content)
            elif isinstance(content, pd.DataFrame):
                content.to_parquet(name)
            elif scipy.sparse.issparse(content):
                scipy.sparse.save_npz(name, content)
            else:
                (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return names

    return write
