"""What README and docs show runs, what they say is so, and the site that is made of them builds."""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch

import epagcl
from benchmarks.tables import PAGES as TABLE_PAGES
from benchmarks.tables import with_tables
from epagcl import evaluation
from epagcl.data import block_model, undirected_pairs, write_npz
from epagcl.evaluation.protocol import Rule
from epagcl.paper.page import read_results

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("api/*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
NOT_RUN = (
    "make ",
    "pip install ",
    "git ",
    "tensorboard ",
    "open ",
    "python -m benchmarks",
    "python -m sphinx",
    "nvidia-",
)
NOT_RUN += ("epagcl paper all ",)  # hours; its options are checked
GRAPHS = ("Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Coauthor-Physics", "Texas")

sys.path.insert(0, str(DOCS))
from builder import drawings, reference  # noqa: E402


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(text: str) -> list[tuple[str, str]]:
    """Code blocks in order, each with its language."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def commands_of(block: str) -> list[str]:
    """A block's lines without comments; a line that ends in a backslash goes on."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"(^|\s)# .*$", "", line).strip() for line in lines) if line]


@pytest.fixture(scope="module")
def named_graphs(tmp_path_factory) -> Path:
    """Tiny graphs by the names of large ones."""
    root = tmp_path_factory.mktemp("named")
    for seed, name in enumerate(GRAPHS):
        data = block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=seed)
        write_npz(data, root / f"{name}.npz")
    return root


@pytest.fixture
def desk(run, tmp_path, monkeypatch, named_graphs):
    """A folder with the files that pages speak of, tiny named graphs, and training that is over soon."""
    from epagcl.methods import base

    monkeypatch.setenv("EPAGCL_DATA", str(named_graphs))
    monkeypatch.setattr("epagcl.data.catalogue.loading.verify", lambda *_: None)
    monkeypatch.setattr(evaluation, "STRICT", Rule((0.1, 0.001), 20, 10, True, False))
    monkeypatch.setattr(evaluation, "PAPER", Rule((0.0,), 20, 1, False, True))
    whole = base.train

    def short(method, *arguments, **options):
        asked, method.epochs = method.epochs, min(method.epochs, 3)
        try:
            return whole(method, *arguments, **options)
        finally:
            method.epochs = asked

    monkeypatch.setattr(base, "train", short)
    for suffix, seed in (("", 0), ("-tomorrow", 1)):
        data = block_model(60, num_classes=3, num_features=40, topic_words=10, words_per_node=6, seed=seed)
        x = data.x.to_dense().numpy()
        pairs = undirected_pairs(data.edge_index, 60).T.numpy()
        pd.DataFrame(pairs, columns=["source", "target"]).to_csv(f"e{suffix}.csv", index=False)
        pd.DataFrame(x).add_prefix("x").rename_axis("id").reset_index().to_csv(f"f{suffix}.csv", index=False)
        np.save(f"f{suffix}.npy", x)
    return run


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_what_a_page_shows_runs_from_top_to_bottom(page, desk, capsys):
    names: dict = {}
    for language, block in blocks(text_of(page)):
        if language == "python":
            exec(compile(block, page.name, "exec"), names)
        if language in ("sh", "bash"):
            for line in commands_of(block):
                if line.startswith("epagcl ") and not line.startswith(NOT_RUN):
                    words = ["cpu" if word == "cuda" else word for word in shlex.split(line)[1:]]
                    code, _, error = desk(*words)
                    assert code == 0, f"{line}\n{error}"
                else:
                    assert line.startswith(NOT_RUN), line


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_and_option_that_is_named_exists(page):
    import typer.main

    from epagcl.cli.app import app
    from epagcl.methods import method, names

    settings = {f"--{field.name.replace('_', '-')}" for name in names() for field in method(name).setting_fields()}
    text = text_of(page)
    lines = [line for language, block in blocks(text) if language in ("sh", "bash") for line in commands_of(block)]
    lines += re.findall(r"`(epagcl [^`]+)`", prose(text))
    for line in lines:
        words = line.replace("...", "").split()
        if words[:1] != ["epagcl"] or len(words) < 2 or words[1].isupper():
            continue
        command = typer.main.get_command(app)
        for word in words[1:]:
            if hasattr(command, "commands") and not word.startswith("-") and not word.isupper():
                assert word in command.commands, line
                command = command.commands[word]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for option in re.findall(r"(?<!\S)--[\w-]+", line):
            assert option in known | settings | {"--help"}, line


@pytest.mark.parametrize("page", TABLE_PAGES, ids=[page.name for page in TABLE_PAGES])
def test_tables_are_those_of_the_results(page):
    text = text_of(page)
    assert with_tables(text) == text
    assert text.count("\n|---") > 2


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_links_between_pages_lead_somewhere(page):
    for target, _, anchor in re.findall(r"\]\(([^)#\s]*)(#([^)\s]+))?\)", prose(text_of(page))):
        if target.startswith("http"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", text_of(file), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# ---- What is said


def test_drawings_are_those_of_the_code():
    assert {path.stem for path in drawings.FOLDER.iterdir()} == set(drawings.DRAWINGS)
    for name, draw in drawings.DRAWINGS.items():
        assert (drawings.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == draw(), (
            "drawn from other code; python docs/builder/drawings.py"
        )


def test_captions_of_the_drawings_are_true():
    edges, y = drawings.small_graph()
    degree = torch.bincount(edges.flatten()).double()
    weight = (degree[edges[0]] * degree[edges[1]]).rsqrt()
    wrong = y[edges[0]] != y[edges[1]]
    per_edge = float(weight[wrong].sum() / weight.sum())
    shares = []
    for node in range(len(y)):
        mine = (edges == node).any(0)
        shares.append(float(weight[mine & wrong].sum() / weight[mine].sum()))
    assert per_edge == pytest.approx(epagcl.error_passing_rate(edges, y, per="edge"))
    text = " ".join(text_of(DOCS / "how-it-works.md").split())
    lower = -epagcl.epr_change(edges, y, [(4, 5), (2, 7)])
    for words in (
        f"EPR per edge: {per_edge:.3f}, the marked weight",
        f"Per node: {np.mean(shares):.3f}, the mean",
        f"{int(wrong.sum())} of {len(wrong)}, {float(wrong.double().mean()):.3f}",
        f"Dropping 4–5 lowers EPR per edge by {lower[0]:.3f}, dropping 2–7 by {lower[1]:.3f}",
        f"`p_drop` {drawings.P_DROP} for both and `p_add` {drawings.P_ADD} for the second",
    ):
        assert words in text, words
    first, second = (list(drawings.view_of(number).values()) for number in (0, 1))
    assert (first.count("dropped"), first.count("added")) == (3, 0)
    assert (second.count("dropped"), second.count("added")) == (3, 3)
    added = [pair for pair, fate in drawings.view_of(1).items() if fate == "added"]
    assert sum(drawings.CLASSES[i] != drawings.CLASSES[j] for i, j in added) == 2


def test_figures_of_scaling_are_those_of_the_benchmarks():
    gpu, cpu = (json.loads((ROOT / f"results/benchmarks/{name}.json").read_text()) for name in ("gpu", "cpu"))
    text = " ".join(text_of(DOCS / "scaling.md").split())
    rows = {row["graph"]: row for row in gpu["epoch"]}
    for name in ("PubMed", "Coauthor-Physics", "ogbn-arxiv", "generated"):
        row = next(row for graph, row in rows.items() if graph.startswith((f"{name},", name)) and "WikiCS" not in graph)
        cells = [f"{row['pairs']:,}", f"{row['gib']:.2f} GiB", f"{row['gib'] * 2**20 / row['nodes']:.0f} KiB"]
        assert f"| {row['nodes']:,} ({name}) | {' | '.join(cells)} |" in text
    assert f"{gpu['scaling'][-1]['gib'] * 2**20 / gpu['scaling'][-1]['nodes']:.0f} KiB a node at width 256" in text
    arxiv = "ogbn-arxiv, generated features"
    times = f"{rows['PubMed']['ms']:.0f} ms for PubMed, {rows[arxiv]['ms'] / 1000:.2f} s for ogbn-arxiv"
    assert f"{times} and {rows['generated, 1,000,000 nodes']['ms'] / 1000:.1f} s for a million nodes" in text
    batches = f"{rows[f'{arxiv}, batches of 256']['ms']:.0f} ms an epoch"
    assert f"ogbn-arxiv {batches}, Coauthor-Physics on the CPU {cpu['physics']['seconds']['epagcl']:.1f} s" in text
    physics = f"Coauthor-Physics {cpu['physics']['all_pairs_seconds']:.0f} s"
    assert f"PubMed takes {cpu['memory']['seconds_per_epoch']:.1f} s and {physics}" in text
    assert all(4 < row["fp32"]["ms"] / row["fp16"]["ms"] < 5 for row in gpu["loss"] if "fp32" in row)
    cora = rows["Cora"]["ms"] / 5, cpu["epoch"][0]["seconds"]["epagcl"] * 200  # 200 epochs: ms / 1000 · 200
    assert f"take {cora[0]:.1f} s on an H200" in text_of(DOCS / "faq.md")
    assert f"\n{cora[1]:.0f} s on two CPU cores" in text_of(DOCS / "faq.md")


def test_what_methods_says_of_settings_is_what_was_measured():
    from epagcl.paper import ablation, accuracy, leakage

    results = read_results(ROOT / "results" / "paper")
    scores = {
        graph: {
            title: float(np.mean(runs)) for title, runs in accuracy.scores(results["accuracy"], "strict", graph).items()
        }
        for graph in ("Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Coauthor-Physics")
    }
    masks = {graph: found["EPAGCL"] - found["EPAGCL*"] for graph, found in scores.items()}
    scale = 1 if scores["Cora"]["EPAGCL"] > 1 else 100
    assert [round(scale * masks[graph]) for graph in masks] == [1, 0, 0, 2, 0]  # hiding columns
    untrained = {graph: scale * (found["untrained encoder"] - found["raw features"]) for graph, found in scores.items()}
    assert round(untrained["Cora"]) == 13
    assert untrained["CiteSeer"] < 0
    assert untrained["PubMed"] < 0
    others = ("raw features", "untrained encoder", "GCN", "GAT")
    titles = [title for title in accuracy.titles_of(results["accuracy"]) if title not in others]
    ranks = accuracy.mean_ranks(
        {graph: accuracy.scores(results["accuracy"], "strict", graph) for graph in scores}, titles
    )
    assert min(ranks, key=ranks.get) == "MVGRL"
    for graph, most in (("Amazon-Photo", 1.25), ("Coauthor-Physics", 1.25)):
        assert scale * (scores[graph]["MVGRL"] - scores[graph]["untrained encoder"]) < most
    for graph in ("Cora", "CiteSeer"):
        gains = ablation.gains(results["ablation"], "strict", graph, base=ablation.TEXT)
        assert gains[ablation.OURS].gain >= 0.95  # Eq. 7's direction over the text's
        (row,) = (r for r in results["leakage"]["rows"] if (r["graph"], r["method"]) == (graph, "EPAGCL"))
        assert leakage.by_rule(row)["validation"]["mean"] > leakage.by_rule(row)["paper"]["mean"]


# ---- The reference and the site


def test_every_command_and_method_is_in_the_reference():
    import typer.main

    from epagcl.cli.app import app

    root = typer.main.get_command(app)
    text = reference.commands()
    for name, command in root.commands.items():
        assert f"## epagcl {name}\n" in text
        for parameter in command.params:
            assert all(option in text for option in parameter.opts if option.startswith("--"))
        for inner in getattr(command, "commands", {}):
            assert f"epagcl {name} {inner}" in text
    made = reference.methods()
    for name in epagcl.methods():
        cls = epagcl.method(name)
        if cls.__module__.startswith("epagcl."):
            section = made.split(f"`--method {name}`")[1].split("\n## ")[0]
            shared = reference.settings()
            for field in cls.setting_fields():
                row = f"| `{field.name}` |"
                assert row in section or row in shared
                assert f"`{field.default}` |" in "".join(re.findall(rf"^\| `{field.name}` .*$", section + shared, re.M))


def test_every_page_is_in_the_contents():
    listed = {page for pages in reference.CONTENTS.values() for page in pages}
    assert listed | {"index"} == {page.stem for page in DOCS.glob("*.md")} | {"api/index"}
    assert set(re.findall(r"^\w+$", reference.api(), re.M)) | {"index"} == {page.stem for page in DOCS.glob("api/*.md")}


def test_the_site_builds_without_a_warning_names_everything_and_needs_no_network(tmp_path):
    for package in ("sphinx", "furo", "myst_parser"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "trees")]
    done = subprocess.run([*build, str(DOCS), str(tmp_path / "site")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(tmp_path / "site").as_posix(): text_of(path) for path in tmp_path.glob("site/**/*.html")}
    api = "".join(text for name, text in pages.items() if name.startswith("api/"))
    for name in epagcl.__all__:
        a_room = isinstance(getattr(epagcl, name), ModuleType)
        assert f'id="epagcl.{name}"' in api or (a_room and f'id="epagcl.{name}.' in api), name
    assert 'id="epagcl-train"' in pages["cli.html"]
    assert api.count('<svg class="formula"') > 30
    for name, text in pages.items():
        assert not re.search(r'<(script|link|img|iframe)[^>]*(src|href)="(https?:)?//', text), name
        assert "made here:" not in text, name
    for sheet in tmp_path.glob("site/_static/**/*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet
