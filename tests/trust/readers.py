"""Every reader on damaged files: it reads them or refuses them in one line."""

from collections.abc import Callable
from pathlib import Path

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import epagcl
from epagcl import EPAGCL, load_model, read_graph
from epagcl.core.config import read_config
from epagcl.core.log import log
from epagcl.data import block_model
from epagcl.data.io.npz import read_npz, write_npz
from epagcl.report.files import write_comparison
from epagcl.runs import run
from epagcl.runs.export import export_run, read_embeddings, write_embeddings
from tests.trust.cases import Tally, attempt
from tests.trust.damage import Edit, damaged, edits

#: The kind of a case, its file, and a function that reads it.
Reader = tuple[str, Path, Callable[[], object]]
SMALL = {"epochs": 2, "hidden": 4, "dim": 4, "projection": 4, "device": "cpu"}


def fuzz_readers(folder: Path, cases: int, seed: int) -> Tally:
    """Damage files of every kind ``cases`` times in all, by Hypothesis, and read them.

    Args:
        folder: an empty folder.
        cases: number of cases.
        seed: seed of the damage.
    """
    tally = Tally(seed)
    readers = _readers(folder)

    @hypothesis.seed(seed)
    @settings(
        max_examples=cases, phases=[Phase.generate], deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )
    @given(st.sampled_from(readers), edits())
    def read_damaged(reader: Reader, changes: list[Edit]) -> None:
        kind, path, read = reader
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, changes))
        try:
            attempt(tally, kind, read)
        finally:
            path.write_bytes(whole)

    level = log.level
    log.setLevel("CRITICAL")
    try:
        read_damaged()
    finally:
        log.setLevel(level)
    tally.details = {"fuzzer": "Hypothesis"}
    return tally


def _readers(folder: Path) -> list[Reader]:
    """Return the kind, the file and the reader of each case, on valid files."""
    data = block_model(30, num_classes=3, num_features=12, topic_words=4, words_per_node=3)
    graph, edges, table = folder / "g.npz", folder / "edges.csv", folder / "nodes.csv"
    features, embedding = folder / "x.npy", folder / "z.npy"
    write_npz(data, graph)
    pairs = data.edge_index.t()[data.edge_index[0] < data.edge_index[1]].tolist()
    edges.write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in pairs))
    rows = zip(data.x.to_dense().tolist(), data.y.tolist(), strict=True)
    lines = [f"n{i},{','.join(map(str, x))},{y}\n" for i, (x, y) in enumerate(rows)]
    table.write_text(f"id,{','.join(f'f{k}' for k in range(12))},label\n{''.join(lines)}")
    np.save(features, data.x.to_dense().numpy())
    write_embeddings(data.x.to_dense()[:, :4], [f"n{k}" for k in range(30)], embedding)
    numbered = folder / "numbered.csv"
    numbered.write_text("source,target\n" + "".join(f"{i},{j}\n" for i, j in pairs))
    checkpoint = folder / "c.safetensors"
    _interrupted(data, checkpoint)
    trained = folder / "run"
    run(data, EPAGCL(**SMALL), trained, map_kind="pca")
    page = folder / "page.html"
    cases: list[Reader] = [
        ("npz", graph, lambda: epagcl.data.check(read_npz(graph))),
        ("edge table", edges, lambda: read_graph(edges=edges, features=table)),
        ("node table", table, lambda: read_graph(edges=edges, features=table)),
        ("npy features", features, lambda: read_graph(edges=numbered, features=features)),
        ("embeddings", embedding, lambda: read_embeddings(embedding)),
        ("ids", folder / "z.ids.txt", lambda: read_embeddings(embedding)),
        ("configuration", trained / "config.toml", lambda: read_config(trained / "config.toml")),
        ("checkpoint", checkpoint, lambda: EPAGCL(**SMALL).fit(data, checkpoint=checkpoint, resume=True)),
    ]
    cases += [("model", trained / name, lambda: load_model(trained)) for name in ("config.toml", "model.safetensors")]
    cases += [
        ("export", trained / name, lambda: export_run(trained, folder / "out.csv", None, columns=True))
        for name in ("embeddings.npy", "embeddings.ids.txt", "nodes.csv")
    ]
    cases += [
        ("report", trained / name, lambda: write_comparison([trained], page, kind="none"))
        for name in ("report.json.gz", "nodes.csv", "embeddings.npy")
    ]
    cases += [("report map", trained / "nodes.csv", lambda: write_comparison([trained], page, kind="pca"))]
    cases += [
        ("finished run", trained / name, lambda: run(data, EPAGCL(**SMALL), trained, map_kind="pca"))
        for name in ("config.toml", "metrics.json")
    ]
    return cases


def _interrupted(data: object, checkpoint: Path) -> None:
    """Write a checkpoint of one epoch."""

    class Stop(Exception):
        pass

    def stop(row: object) -> None:
        raise Stop

    import epagcl.training.checkpoint as module

    seconds, module.CHECKPOINT_SECONDS = module.CHECKPOINT_SECONDS, 0.0
    try:
        EPAGCL(**SMALL).fit(data, checkpoint=checkpoint, callback=stop)
    except Stop:
        pass
    finally:
        module.CHECKPOINT_SECONDS = seconds
