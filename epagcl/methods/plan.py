"""How to train a graph: as a whole, on subgraphs or on several ranks; how long an epoch takes, and whether it fits."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from epagcl.core.checks import check_whole
from epagcl.core.cost import Cost, Machine, boundary_share, cost, machine, with_memory
from epagcl.core.errors import InputError
from epagcl.core.formatting import duration
from epagcl.core.memory import available_memory
from epagcl.core.streamed import COLUMN_BYTES_PER_ROW, columns_at_once
from epagcl.data.large import is_arrays
from epagcl.methods.work import MODELLED, Sizes, sizes_of, work_of

if TYPE_CHECKING:
    from epagcl.methods.base import Method

#: Bytes per node that training on subgraphs keeps of the whole graph: pointers, degrees, and the order of the roots.
PER_NODE = 40
HEADROOM = 0.9  # share of the memory that a plan may use
GIB = 2**30
LITTLE_WORK = 1e13  # floating-point operations that take a few minutes anywhere: not worth a prediction
LONG = 600.0  # seconds of training that a user wants to know of beforehand


class Mode(NamedTuple):
    """One way to train.

    Attributes:
        name: whole, subgraphs or ranks.
        ranks: number of processes.
        epoch: predicted cost of an epoch on one rank.
        fits: whether it fits into the memory of the device.
    """

    name: str
    ranks: int
    epoch: Cost
    fits: bool


@dataclass(frozen=True)
class Plan:
    """The predicted cost of all ways to train a method on a graph, and the one to choose.

    Attributes:
        method: name of the method.
        sizes: of the graph.
        machine: the device of each rank.
        epochs: number of epochs.
        modes: the ways to train.
        embedding: predicted cost of the embedding.

    Examples:
        >>> import epagcl
        >>> plan = epagcl.plan(nodes=1_000_000, edges=10_000_000, features=128, method="epagcl", device="h200")
        >>> plan.choice.name
        'whole'
    """

    method: str
    sizes: Sizes
    machine: Machine
    epochs: int
    modes: tuple[Mode, ...]
    embedding: Cost

    @property
    def choice(self) -> Mode:
        """The mode to choose: exact before approximate, then the fastest; the smallest if none fits."""
        fitting = [mode for mode in self.modes if mode.fits]
        if not fitting:
            return min(self.modes, key=lambda mode: mode.epoch.bytes)
        exact = [mode for mode in fitting if mode.name != "subgraphs"]
        return min(exact or fitting, key=lambda mode: mode.epoch.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain numbers and text."""
        return {
            "method": self.method,
            "graph": self.sizes._asdict(),
            "device": self.machine.name,
            "memory_gib": self.machine.memory / GIB,
            "epochs": self.epochs,
            "choice": self.choice.name,
            "modes": [
                {
                    "mode": mode.name,
                    "ranks": mode.ranks,
                    "seconds_per_epoch": mode.epoch.seconds,
                    "training_seconds": self.epochs * mode.epoch.seconds,
                    "peak_gib": mode.epoch.bytes / GIB,
                    "sent_gib_per_epoch": mode.epoch.sent / GIB,
                    "fits": mode.fits,
                    "seconds_by_part": mode.epoch.parts,
                }
                for mode in self.modes
            ],
            "embedding_seconds": self.embedding.seconds,
        }


def plan(
    graph: Any = None,
    *,
    nodes: int | None = None,
    edges: int | None = None,
    features: int | None = None,
    method: "str | Method" = "epagcl+",
    gpus: int = 1,
    memory: float | None = None,
    device: str = "auto",
) -> Plan:
    """Predict how long a training takes and how much memory it needs, and choose a mode.

    Args:
        graph: ``Data`` or a graph on disk, which has its own sizes; None: they are given.
        nodes: N.
        edges: E, undirected.
        features: F, dense.
        method: name of a method, or a method with its settings.
        gpus: number of devices, one rank each.
        memory: GiB of each device; None: what is available on this one.
        device: auto, cpu, cuda, or a known machine such as h200.

    Examples:
        >>> import epagcl
        >>> p = epagcl.plan(nodes=111_000_000, edges=1_600_000_000, features=128, method="epagcl", device="h200")
        >>> p.choice.name, p.modes[0].fits
        ('subgraphs', False)
    """
    from epagcl.methods.registry import method as method_class

    if graph is not None and (nodes, edges, features) != (None, None, None):
        raise InputError("plan: graph= has its own sizes; leave out nodes=, edges= and features=")
    if graph is None:
        if nodes is None or edges is None or features is None:
            raise InputError("plan: give graph=, or nodes=, edges= and features=")
        given = {"nodes": nodes, "edges": edges, "features": features}
        sizes = Sizes(*(check_whole(value, name) for name, value in given.items()))
    else:
        sizes = sizes_of(graph)
    if min(sizes[:3]) < 0 or sizes.nodes < 1 or check_whole(gpus, "gpus") < 1:
        raise InputError(f"plan: {sizes.nodes:,} nodes, {sizes.edges:,} edges, gpus={gpus}; give positive numbers")
    model = method_class(method)() if isinstance(method, str) else method
    on = with_memory(machine(device), memory)
    return Plan(
        method=type(model).name,
        sizes=sizes,
        machine=on,
        epochs=model.epochs,
        modes=tuple(_modes(model, sizes, on, gpus)),
        embedding=cost(work_of(model, sizes, training=False), on),
    )


def _modes(model: "Method", sizes: Sizes, on: Machine, ranks: int) -> list[Mode]:
    """Return the ways to train that the setting ``subgraphs`` allows."""
    work, settings = work_of(model, sizes), model.get_params()
    kind = settings["subgraphs"] if type(model).trained else "off"
    limit, modes = HEADROOM * on.memory, []
    if kind in ("auto", "off"):
        whole = cost(work, on)
        modes.append(Mode("whole", 1, whole, whole.bytes <= limit))
        if ranks > 1:
            shared = cost(work, on, ranks, boundary_share(sizes.average_degree, ranks))
            modes.append(Mode("ranks", ranks, shared, shared.bytes <= limit))
    if kind != "off":
        part = cost(work_of(model, subgraph_sizes(sizes, settings["subgraph_nodes"])), on)
        # The arrays of the whole graph stay on the host; on a CPU this is the same memory.
        columns = columns_at_once(sizes.nodes, available=on.memory)
        kept = (PER_NODE + COLUMN_BYTES_PER_ROW * columns) * sizes.nodes if on.kind == "cpu" else 0.0
        modes.append(Mode("subgraphs", 1, part._replace(bytes=part.bytes + kept), part.bytes + kept <= limit))
    return modes


def subgraph_sizes(sizes: Sizes, nodes: int) -> Sizes:
    """Return the sizes of a subgraph of some nodes: the edges that found its nodes, and those between random ones.

    Examples:
        >>> subgraph_sizes(Sizes(1_000_000, 10_000_000, 128), 10_000)
        Sizes(nodes=10000, edges=11000, features=128, entries=None)
    """
    nodes = min(nodes, sizes.nodes)
    share = nodes / sizes.nodes
    edges = min(sizes.edges, round(nodes + sizes.edges * share**2))
    return Sizes(nodes, edges, sizes.features, None if sizes.entries is None else round(sizes.entries * share))


def too_large(model: "Method", graph: Any, device: torch.device, *, training: bool = True) -> str | None:
    """Return a line that says that a graph does not fit into the memory of a device, or None if it does.

    Args:
        model: the method with its settings.
        graph: the graph.
        device: the device.
        training: False: for embedding with a trained model.

    Examples:
        >>> from epagcl import EPAGCL
        >>> from epagcl.data import block_model
        >>> too_large(EPAGCL(), block_model(60), torch.device("cpu")) is None
        True
    """
    available = available_memory(device)
    if type(model).name not in MODELLED or available is None:
        return None
    sizes = sizes_of(graph)
    needed = memory_of(model, sizes, device.type, training=training)
    if needed <= HEADROOM * available:
        return None
    task = "training on" if training else "embedding"
    return (
        f"{task} all {sizes.nodes:,} nodes at once needs about {needed / GIB:,.1f} GiB, "
        f"{available / GIB:,.1f} GiB are available"
    )


def memory_of(model: "Method", sizes: Sizes, kind: str, *, training: bool = True) -> float:
    """Return the predicted peak memory in bytes of a method on a whole graph.

    Examples:
        >>> from epagcl import EPAGCL
        >>> 15 < memory_of(EPAGCL(), Sizes(1_000_000, 10_000_000, 128), "cuda") / 2**30 < 32
        True
    """
    nowhere = replace(machine("h200"), kind=kind)  # rates do not matter for memory
    return cost(work_of(model, sizes, training=training), nowhere).bytes


def cost_note(model: "Method", graph: Any) -> str | None:
    """Return a line on a training that takes more than ten minutes or more than the memory; None for all others.

    Args:
        model: the method with its settings.
        graph: the graph.

    Examples:
        >>> from epagcl import EPAGCL
        >>> from epagcl.data import block_model
        >>> cost_note(EPAGCL(epochs=10, device="cpu"), block_model(60)) is None
        True
    """
    if type(model).name not in MODELLED or not type(model).trained:
        return None
    settings, sizes = model.get_params(), sizes_of(graph)
    if is_arrays(graph) and settings["subgraphs"] == "auto":  # as `fit` does
        settings["subgraphs"] = "neighbours"
        model = type(model)(**settings)
    seen = sizes if settings["subgraphs"] in ("auto", "off") else subgraph_sizes(sizes, settings["subgraph_nodes"])
    if model.epochs * work_of(model, seen).loss < LITTLE_WORK:
        return None
    predicted = plan(graph, method=model, device=model.device)
    choice = predicted.choice
    seconds = predicted.epochs * choice.epoch.seconds
    fits = "" if choice.fits else f", and {choice.epoch.bytes / GIB:,.1f} GiB, more than there is"
    if seconds < LONG and choice.fits:
        return None
    return (
        f"{type(model).title} will take about {duration(seconds)} ({predicted.epochs:,} epochs of "
        f"{choice.epoch.seconds:.2g} s){fits}; `epagcl plan` compares the alternatives"
    )
