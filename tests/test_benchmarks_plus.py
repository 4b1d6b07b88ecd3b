"""Variants of EPAGCL+: what is trained, what is recorded, and the tables of the documentation."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as command_line
from benchmarks import plus, plus_time, tables
from epagcl.core.errors import InputError, TrainingError
from epagcl.data import block_model
from epagcl.data.catalogue import find
from epagcl.data.splits import random_split
from epagcl.evaluation.linear import linear_evaluation
from epagcl.methods.epagcl_plus import EPAGCLPlus
from epagcl.methods.inputs import input_graph
from epagcl.nn.encoders import ENCODERS
from epagcl.training.protocol import calibrate

EVIDENCE = Path(__file__).parent.parent / "results" / "evidence"
SMALL = {"epochs": 1, "hidden": 8, "projection": 4}


@pytest.fixture
def graph():
    data = block_model(120, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=0)
    data.name = "Cora"
    return data


@pytest.fixture
def quick(graph, monkeypatch):
    """Small networks, an invented accuracy, and a generated graph in place of the named ones."""
    variants = {name: SMALL | changes | SMALL for name, changes in plus.VARIANTS.items()}
    monkeypatch.setattr(plus, "VARIANTS", variants | {"untrained": SMALL | {"epochs": 0}})
    monkeypatch.setattr(plus, "accuracies", lambda z, y, splits: {"256": 1 / splits, "512": float(z.square().mean())})

    def load(name):
        data = graph.clone()
        data.name = find(name).name
        return data

    monkeypatch.setattr(plus, "load", load)


def test_the_variants_are_valid_settings():
    for changes in plus.VARIANTS.values():
        EPAGCLPlus(**changes).validate()
    assert plus.VARIANTS[plus.SHIPPED] == {}
    assert (len(plus.TARGETS), len(plus.GRAPHS), len(set(plus.GRAPHS))) == (11, 15, 15)
    assert all(find(name).name == name for name in plus.GRAPHS)


def test_the_blocks_of_the_mixtures_are_those_of_the_network():
    network = EPAGCLPlus(members=3).build(num_features=5)
    assert tuple(dict.fromkeys(network.kinds)) == (*plus.TRAINED_BLOCKS, *plus.PROPAGATED_BLOCKS)
    assert network.weights.numel() == len(network.kinds) == 7 + len(plus.PROPAGATED_BLOCKS)


@pytest.mark.parametrize(
    ("mixture", "expected"),
    [
        ("without trained models", [0, 0, 0, 0, 0, 0.7, 0.7, 0.2, 0.2, 0.3]),
        ("without residual models", [0, 0, 0.5, 0.5, 0.4, 0.7, 0.7, 0.2, 0.2, 0.3]),
        ("without scales models", [0.5, 0.5, 0, 0, 0.4, 0.7, 0.7, 0.2, 0.2, 0.3]),
        ("without the infomax model", [0.5, 0.5, 0.5, 0.5, 0, 0.7, 0.7, 0.2, 0.2, 0.3]),
        ("without propagated features", [0.5, 0.5, 0.5, 0.5, 0.4, 0, 0, 0, 0, 0]),
        ("without neighbours-only blocks", [0.5, 0.5, 0.5, 0.5, 0.4, 0.7, 0.7, 0, 0, 0.3]),
        ("neighbours-only blocks at full weight", [0.5, 0.5, 0.5, 0.5, 0.4, 0.7, 0.7, 0.7, 0.7, 0.3]),
        ("own features at weight 1", [0.5, 0.5, 0.5, 0.5, 0.4, 0.7, 0.7, 0.2, 0.2, 1]),
        ("all blocks at weight 1", [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
        ("trained blocks at weight 1", [1, 1, 1, 1, 1, 0.7, 0.7, 0.2, 0.2, 0.3]),
    ],
)
def test_weights_of_the_mixtures(mixture, expected):
    network = EPAGCLPlus(members=2).build(num_features=5)
    shipped = torch.tensor([0.5] * 4 + [0.4, 0.7, 0.7, 0.2, 0.2, 0.3])
    weights = plus.mixed_weights(network, shipped, plus.MIXTURES[mixture])
    torch.testing.assert_close(weights, torch.tensor(expected, dtype=torch.float32))
    assert len(plus.MIXTURES) == 10


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [120, 600])  # fewer nodes than components; more, so that the components are iterated
def test_the_first_columns_are_the_embedding_with_fewer_numbers(nodes):
    data = block_model(nodes, num_classes=3, num_features=60, topic_words=10, words_per_node=6, seed=0)
    wide, narrow = (EPAGCLPlus(dim=dim, device="cpu", **SMALL).fit(data).embed(data) for dim in (64, 32))
    assert wide.shape == (nodes, 64)
    torch.testing.assert_close(wide[:, :32], narrow, atol=2e-3, rtol=1e-3)
    assert float(wide[:, :32].square().sum() / narrow.square().sum()) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_a_mixture_equals_a_model_with_these_weights(graph, quick):
    embeddings = dict(plus.embeddings(graph, plus.SHIPPED, seed=3, device="cpu"))
    assert list(embeddings) == [plus.SHIPPED, *plus.MIXTURES]
    model = EPAGCLPlus(**{**SMALL, "dim": 512, "seed": 3, "device": "cpu"}).fit(graph)
    torch.testing.assert_close(embeddings[plus.SHIPPED], model.embed(graph))
    model.network_.weights[5:].zero_()
    calibrate(model, model.network_, input_graph(model, graph, torch.device("cpu")))
    torch.testing.assert_close(embeddings["without propagated features"], model.embed(graph))
    assert not torch.allclose(embeddings["without propagated features"], embeddings[plus.SHIPPED])
    assert [name for name, _ in plus.embeddings(graph, "members 1", 0, "cpu")] == ["members 1"]


def test_accuracies_are_those_of_validation_nodes(graph):
    z = torch.cat([torch.randn(120, 256, generator=torch.Generator().manual_seed(0)), graph.x.to_dense()], dim=1)
    measured = plus.accuracies(z, graph.y, splits=3)
    assert list(measured) == ["256", "512"]
    scored = []
    for seed in range(3):
        split = random_split(graph.y, seed=seed)
        for parts in plus.halved(split):
            assert sorted([*parts.val.tolist(), *parts.test.tolist()]) == split.val.tolist()
            assert parts.train is split.train
            scored.append(linear_evaluation(z[:, :256], graph.y, "strict", splits=parts, seed=len(scored)).mean)
    assert measured["256"] == pytest.approx(sum(scored) / 6)
    assert measured["256"] < measured["512"]  # the first columns are noise


@pytest.mark.slow
def test_trainings_are_ordered_kept_and_continued(tmp_path, quick, monkeypatch):
    trained = []
    extend = plus._extend
    monkeypatch.setattr(plus, "_extend", lambda *args: (trained.append((args[0]["graph"], *args[2:4])), extend(*args)))
    variants = ["untrained", "members 1"]
    plus.plus(tmp_path, ["cora", "texas"], variants, seeds=2, device="cpu")
    assert trained == [(g, v, seed) for seed in (0, 1) for v in variants for g in ("Cora", "Texas")]
    file = json.loads((tmp_path / "Texas.json").read_text())
    assert [(row["variant"], row["seed"]) for row in file["scores"]] == [(v, s) for s in (0, 1) for v in variants]
    assert (file["splits"], file["nodes"]) == (30, 120)
    assert {row["accuracy"]["256"] for row in file["scores"]} == {1 / 30}
    assert file["command"] == "python -m benchmarks plus --graphs Texas --variants 'untrained' 'members 1' --seeds 2"
    trained.clear()
    plus.plus(tmp_path, ["cora"], [*variants, "800 epochs"], device="cpu")
    assert trained == [("Cora", "800 epochs", 0)]
    trained.clear()
    plus.plus(tmp_path, ["cora"], device="cpu", seconds=-1)
    assert trained == []
    file["commit"] = "another"
    (tmp_path / "Texas.json").write_text(json.dumps(file))
    with pytest.raises(InputError, match=r"Texas\.json: written with another commit; remove it, or choose .* --out"):
        plus.plus(tmp_path, ["texas"], device="cpu")
    with pytest.raises(InputError, match="Cora and Texas differ in commit"):
        plus.merge(tmp_path)


def test_a_failed_training_is_recorded_and_tried_again(tmp_path, quick, monkeypatch):
    def fail(*arguments):
        raise TrainingError("the loss is not finite")

    monkeypatch.setattr(plus, "embeddings", fail)
    plus.plus(tmp_path, ["cora"], ["members 1", "members 3"], device="cpu")
    file = json.loads((tmp_path / "Cora.json").read_text())
    assert file["scores"] == []
    assert [row["variant"] for row in file["failed"]] == ["members 1", "members 3"]
    assert file["failed"][0]["error"] == "the loss is not finite"
    monkeypatch.setattr(plus, "embeddings", lambda *arguments: [(arguments[1], torch.ones(2, 2))])
    plus.plus(tmp_path, ["cora"], ["members 1"], device="cpu")
    file = json.loads((tmp_path / "Cora.json").read_text())
    assert [row["variant"] for row in file["scores"]] == ["members 1"]
    assert file["failed"] == []


def test_the_graphs_that_are_present_are_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("EPAGCL_DATA", str(tmp_path))
    assert plus.present() == []
    for name in ("Texas", "Cora", "WikiCS"):
        (tmp_path / f"{name}.npz").touch()
    assert plus.present() == ["Cora", "Texas"]


@pytest.fixture
def merged(tmp_path, quick, monkeypatch):
    """Files of two graphs without trainings, merged by the command line into a temporary file."""

    def embeddings(data, variant, seed, device):
        names = (variant, *plus.MIXTURES) if variant == plus.SHIPPED else (variant,)
        return [(name, torch.full((2, 2), 0.5 + 0.1 * seed)) for name in names]

    monkeypatch.setattr(plus, "embeddings", embeddings)
    plus.plus(tmp_path / "parts", ["texas", "cora"], [plus.SHIPPED, "untrained"], device="cpu")
    plus.plus(tmp_path / "parts", ["cora"], ["untrained"], seeds=2, device="cpu")
    file = tmp_path / "evidence" / "epagcl-plus.json"
    monkeypatch.setattr(tables, "PLUS", file)
    monkeypatch.setattr("sys.argv", ["benchmarks", "plus", "--merge", str(tmp_path / "parts")])
    command_line.main()
    return json.loads(file.read_text())


def test_merged_files(merged):
    assert list(merged["splits"]) == ["Cora", "Texas"]
    assert merged["seeds"] == 2
    assert list(merged["accuracy"]) == [plus.SHIPPED, "untrained", *plus.MIXTURES]
    assert [len(merged["accuracy"]["untrained"][graph]["256"]) for graph in ("Cora", "Texas")] == [2, 1]
    assert {"date", "hardware", "versions", "commit", "command", "protocol", "settings"} < set(merged)
    assert "test" not in json.dumps(merged["accuracy"])


def test_the_table_of_variants(merged, monkeypatch):
    text = tables.with_tables("<!-- epagcl-plus -->\nold\n<!-- /epagcl-plus -->\n")
    lines = text.splitlines()
    assert "| variant | Cora | Texas | mean of 11 | mean of 15 | seeds |" in lines
    row = next(line for line in lines if line.startswith("| untrained |"))
    assert row == "| untrained | 3.3 | 3.3 | – | – | 1–2 |"
    assert "| untrained | 30.5 | 25.0 |" in plus.table(merged, 512)  # the mean of 0.5² and 0.6²; 0.5²
    assert "*Variants of EPAGCL+, 256 numbers per node*" in text
    assert "old" not in text
    accuracy = {"a": {g: {"256": [k / 100]} for k, g in enumerate(plus.GRAPHS)}, "b": merged["accuracy"]["untrained"]}
    full = plus.table(merged | {"accuracy": accuracy, "splits": dict.fromkeys(plus.GRAPHS, 10)})
    assert "| **5.00** | **7.00** | 1 |" in full  # the means of 0, ..., 10 and of 0, ..., 14
    monkeypatch.setattr(tables, "PLUS", Path("absent"))
    empty = "<!-- epagcl-plus -->\n<!-- /epagcl-plus -->\n"
    assert tables.with_tables(empty) == empty


def test_nothing_to_merge(tmp_path):
    with pytest.raises(InputError, match="no files; measure first with --out"):
        plus.merge(tmp_path)


@pytest.mark.slow
def test_times_by_encoder_and_of_the_whole_fit(graph, monkeypatch):
    monkeypatch.setattr(plus_time, "EPAGCLPlus", lambda device: EPAGCLPlus(**SMALL, dim=8, device=device))
    monkeypatch.setattr(plus_time, "BLOCK_SECONDS", 0.0)
    row = plus_time.timed(graph, "cpu", repeats=1)
    assert (row["graph"], row["nodes"], row["target_seconds"]) == ("Cora", 120, 90)
    assert row["fit_seconds"] > 0
    assert list(row["epoch_seconds"]) == list(ENCODERS)
    assert all(seconds > 0 for seconds in row["epoch_seconds"].values())


def test_the_tables_of_times(tmp_path, monkeypatch):
    monkeypatch.setattr("epagcl.load", lambda name: (_ for _ in ()).throw(InputError("absent")))
    monkeypatch.setattr("sys.argv", ["benchmarks", "plus-time", "--device", "cpu", "--out", str(tmp_path)])
    command_line.main()
    file = tmp_path / "benchmarks" / "plus.json"
    times = json.loads(file.read_text())
    assert times["cpu"]["absent"] == [f"{name}: absent" for name in plus_time.TARGETS]
    seconds = {"gcn": 0.002, "residual": 0.0025, "pagerank": 0.002, "scales": 0.003}
    row = {"graph": "Cora", "nodes": 2708, "fit_seconds": 1.234, "target_seconds": 2.0, "epoch_seconds": seconds}
    gpu = times["cpu"] | {"hardware": {"device": "GPU", "cpu": "CPU", "threads": 2}, "rows": [row]}
    cpu = times["cpu"] | {"hardware": {"device": "cpu", "cpu": "CPU", "threads": 2}}
    cpu["rows"] = [row | {"target_seconds": None}]
    file.write_text(json.dumps({"cuda": gpu, "cpu": cpu}))
    monkeypatch.setattr(tables, "PLUS_TIME", file)
    text = tables.with_tables("<!-- epagcl-plus-time -->\n<!-- /epagcl-plus-time -->\n")
    assert "| Cora | GPU | 1.2 s | ≤ 2 s |" in text
    assert "| Cora | CPU, 2 threads | 1.2 s | – |" in text
    assert "| residual (target ≤ 1.5×) |" in text
    assert "| 2.5 ms (1.25×) |" in text
    assert all(len(line) <= 120 for line in text.splitlines() if not line.startswith("|"))


def test_the_exploration_is_complete():
    result = json.loads((EVIDENCE / "epagcl-plus--exploration.json").read_text(encoding="utf-8"))
    assert result["graphs"] == list(plus.GRAPHS)
    assert "validation" in result["protocol"]
    assert [len(part["validation_accuracy"]) for part in result["rounds"]] == [103, 56, 95, 119, 26, 32, 33, 39, 25]
    for part in result["rounds"]:
        assert part["legend"]
        for row in part["validation_accuracy"].values():
            assert len(row) == 15
            assert all(value is None or 0 < value < 100 for value in row)
