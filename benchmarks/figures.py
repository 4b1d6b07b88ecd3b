"""Figures of the documentation, drawn from the files under ``results``."""

from pathlib import Path


def scaling_figure(result: dict, folder: Path) -> None:
    """Draw time and memory of the exact loss against the number of nodes, as ``scaling.svg`` and ``scaling.png``."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    nodes = [row["nodes"] for row in result["scaling"]]
    largest = result["scaling"][-1]
    with rc_context({"svg.hashsalt": "epagcl", "font.size": 9}):
        figure = Figure(figsize=(7.6, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.loglog(nodes, [row["ms"] / 1000 for row in result["scaling"]], "o-", color="#2b6cb0", label="measured")
        product = result["rates"]["fp16"] * 1e12
        floor = [3 * 2 * (2 * n) ** 2 * 256 / product for n in nodes]
        left.loglog(nodes, floor, "--", color="#718096", label="3 products at the\nrate of a product")
        left.set(xlabel="nodes", ylabel="seconds", title="exact loss, forward and backward")
        left.legend(frameon=False)
        right.loglog(nodes, [row["gib"] for row in result["scaling"]], "o-", color="#2b6cb0", label="measured")
        linear = [largest["gib"] * n / largest["nodes"] for n in nodes]
        right.loglog(nodes, linear, ":", color="#718096", label="linear in N")
        square = [4 * (2 * n) ** 2 / 2**30 for n in nodes]
        right.loglog(nodes, square, "--", color="#c05621", label="one dense 2N×2N block")
        right.set(xlabel="nodes", ylabel="GiB", title="peak memory of the loss")
        right.legend(frameon=False)
        for axes in (left, right):
            axes.grid(alpha=0.3)
            axes.spines[["top", "right"]].set_visible(False)
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / "scaling.svg", metadata={"Date": None})
        figure.savefig(folder / "scaling.png", dpi=150)
