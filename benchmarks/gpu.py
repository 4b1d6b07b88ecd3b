"""GPU benchmarks: epochs on graphs of every size, and the rate, scaling and errors of the loss."""

import gc
import statistics
import time
from collections.abc import Callable
from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

import epagcl
from benchmarks.cpu import graph
from benchmarks.plain import LOSSES, PlainEPAGCL
from epagcl.core.errors import InputError
from epagcl.core.randomness import uniform64
from epagcl.data import check
from epagcl.data.graph import Graph
from epagcl.losses.infonce.loss import PRECISIONS, info_nce_stacked
from epagcl.losses.infonce.tiled import tiled_loss
from epagcl.losses.infonce.triton_loss import Operands, row_sums
from epagcl.methods import Method
from epagcl.runs.record import provenance
from epagcl.training.epoch import EpochRunner
from epagcl.training.loop import adam
from epagcl.views.probabilities import edge_weights

DEVICE = torch.device("cuda")

#: name → nodes, average degree and features of the generated substitute; targets in ms and GiB.
GRAPHS = {
    "Cora": (2_708, 3.9, 1_433, 0.8, 0.3),
    "CiteSeer": (3_327, 2.7, 3_703, 1.0, 0.3),
    "Amazon-Photo": (7_650, 31.1, 745, 2.0, 1.0),
    "WikiCS": (11_701, 41.7, 300, 4.0, 1.0),
    "PubMed": (19_717, 4.5, 500, 8.0, 1.0),
    "Coauthor-Physics": (34_493, 14.4, 8_415, 20.0, 3.0),
}
ARXIV = 169_343, 1_157_799  # nodes, pairs
MILLION = 1_000_000, 10_000_000
SCALING = [2_500 * 2**k for k in range(9)]


def gpu(largest: int = 10**9) -> dict:
    """Run all GPU benchmarks on graphs of up to ``largest`` nodes."""
    if not torch.cuda.is_available():
        raise InputError("benchmarks gpu: no CUDA device here; on a CPU run `python -m benchmarks cpu`")
    rates = product_rates()
    result = {
        **provenance("cuda"),
        "command": "python -m benchmarks gpu" + (f" --largest {largest}" if largest < 10**9 else ""),
        "seed": 0,
        "protocol": "EPAGCL with its default settings; medians over blocks of epochs after warm-up; peak memory of "
        "tensors on the device, including graph and optimiser",
        "rates": rates,
        "epoch": [],
    }
    for name, (nodes, degree, features, milliseconds, gib) in GRAPHS.items():
        if nodes <= largest:
            data = check(graph(name, nodes, degree, features))
            row = epoch(Graph.from_data(data, DEVICE), data.name)
            row |= {"target_ms": milliseconds, "target_gib": gib, "plain": plain(data)}
            result["epoch"].append(_logged(row))
    for name, size, settings, milliseconds, gib in (
        ("ogbn-arxiv", ARXIV, {}, 400, 6),
        ("ogbn-arxiv, batches of 256", ARXIV, {"batch_size": 256}, 30, 6),
        ("generated", MILLION, {}, 14_000, 40),
    ):
        if size[0] <= largest:
            inputs, title = large(name.split(",")[0], *size)
            title += ", batches of 256" if settings else ""
            row = epoch(inputs, title, **settings)
            result["epoch"].append(_logged(row | {"target_ms": milliseconds, "target_gib": gib, "plain": None}))
            del inputs
    result["capture"] = capture()
    result["loss"] = [loss_alone(n, rates) for n in (19_717, 34_493, 169_343) if n <= largest]
    result["scaling"] = [_logged(scaling(n)) for n in SCALING if n <= largest]
    result["precision"] = [errors(n, rows) for n in (3_000, 200_000) if n <= largest for rows in ROWS]
    result["algorithm_1"] = algorithm_1()
    result["evaluation"] = evaluation()
    return result


def _logged(row: dict) -> dict:
    print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return row


def reset_memory() -> None:
    """Release unused memory of the device and reset the record of its peak."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()  # they belong to streams that are no longer used
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def peak_gib() -> float:
    """Return the peak memory of tensors since :func:`reset_memory`, in GiB."""
    return torch.cuda.max_memory_allocated() / 2**30


def median_seconds(step: Callable[[], object], repeats: int = 7, warm_up: int = 1) -> float:
    """Return the median time of a few runs, synchronising with the device after each."""
    times = []
    for _ in range(warm_up + repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[warm_up:])


def product_rates(size: int = 8192) -> dict:
    """Return the rate of torch's matrix product in each precision in Tflop/s, and the rate of a copy in TB/s."""
    rates = {}
    dtypes = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    for name, dtype in dtypes.items():
        a, b = (torch.randn(size, size, device=DEVICE, dtype=dtype) for _ in range(2))
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
        rates[name] = 2 * size**3 / median_seconds(lambda a=a, b=b: a @ b, 15, 3) / 1e12
        torch.set_float32_matmul_precision(before)
    a = torch.randn(2**29, device=DEVICE)
    b = torch.empty_like(a)
    rates["copy_tb_per_s"] = 2 * a.numel() * 4 / median_seconds(lambda: b.copy_(a)) / 1e12
    return rates


def epoch(inputs: Graph, name: str, **settings: object) -> dict:
    """Return time and memory of an epoch of EPAGCL on a graph."""
    reset_memory()
    method = epagcl.EPAGCL(device="cuda", **settings)
    torch.manual_seed(0)
    return timed_epochs(method, method.build(inputs.num_features).to(DEVICE), inputs, name)


def timed_epochs(method: Method, network: nn.Module, inputs: Graph, name: str) -> dict:
    """Return the time of an epoch as training runs it, from views to optimiser, and its peak memory."""
    start = time.perf_counter()
    epochs = EpochRunner(method, network, inputs, adam(method, network, DEVICE))
    first = epochs.run(0, 1)
    first_seconds = time.perf_counter() - start
    done = 1

    def block(count: int) -> None:
        nonlocal done
        epochs.run(done, done + count)
        done += count

    if not epochs.reason:
        block(4)  # captures the epoch
    once = median_seconds(lambda: block(1), 1, 0)
    count = max(1, min(200, int(0.2 / once)))
    seconds = median_seconds(lambda: block(count), 3 if once > 2 else 5, 0) / count
    return {
        "graph": name,
        "nodes": inputs.num_nodes,
        "pairs": inputs.pairs.shape[1],
        "features": inputs.num_features,
        "ms": 1000 * seconds,
        "gib": peak_gib(),
        "captured": epochs.captured is not None,
        "first_epoch_seconds": first_seconds,
        "first_loss": first[0][0],
    }


def plain(data: Data) -> dict | None:
    """Return time and memory of the fastest plain dense implementation that fits the GPU, or None."""
    best = None
    for name in LOSSES:
        reset_memory()
        with suppress(torch.OutOfMemoryError), DEVICE:
            torch.manual_seed(0)
            model = PlainEPAGCL(data.to(DEVICE), name)
            optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)

            def step(model: PlainEPAGCL = model, optimiser: torch.optim.Adam = optimiser) -> None:
                optimiser.zero_grad()
                model().backward()
                optimiser.step()

            row = {"name": name, "ms": 1000 * median_seconds(step, 5, 2), "gib": peak_gib()}
            if best is None or row["ms"] < best["ms"]:
                best = row
        model = optimiser = step = None
    data.to("cpu")
    return best


def large(name: str, nodes: int, pairs: int) -> tuple[Graph, str]:
    """Return a graph with 128 generated features, and its title.

    The edges of ogbn-arxiv are real if they are available. All other edges are random pairs.
    """
    x = torch.randn(nodes, 128, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    with suppress(InputError):
        if name == "ogbn-arxiv":
            data = epagcl.load(name, features=False)
            data.x = x
            return Graph.from_data(check(data), DEVICE), f"{data.name}, generated features"
    counter = torch.arange(int(1.01 * pairs), device=DEVICE)
    i, j = ((uniform64(counter, 0, 99, k) * nodes).long() for k in range(2))
    keys = torch.unique((torch.minimum(i, j) * nodes + torch.maximum(i, j))[i != j])
    keys = keys[torch.argsort(uniform64(keys, 0, 98))[:pairs]].sort().values
    title = f"generated, {nodes:,} nodes" if name == "generated" else f"generated, size of {name}"
    return Graph(x=x, pairs=torch.stack([keys // nodes, keys % nodes]), num_nodes=nodes), title


def capture() -> dict:
    """Return the epoch time of Cora with and without the CUDA graph, and whether 20 losses are bit-identical."""
    data = check(graph("Cora", *GRAPHS["Cora"][:3]))
    inputs = Graph.from_data(data, DEVICE)
    losses, seconds = {}, {}
    for how in ("on", "off"):
        method = epagcl.EPAGCL(device="cuda", capture=how)
        torch.manual_seed(0)
        network = method.build(inputs.num_features).to(DEVICE)
        epochs = EpochRunner(method, network, inputs, adam(method, network, DEVICE))
        losses[how] = epochs.run(0, 20)
        seconds[how] = median_seconds(lambda epochs=epochs: epochs.run(20, 60), 5, 1) / 40
    return {
        "graph": data.name,
        "captured_ms": 1000 * seconds["on"],
        "not_captured_ms": 1000 * seconds["off"],
        "same_losses": losses["on"] == losses["off"],
    }


def _forward_and_backward(x: Tensor, precision: str) -> Callable[[], None]:
    def step() -> None:
        torch.autograd.grad(info_nce_stacked(x, 0.3, impl="triton", precision=precision), x)

    return step


def loss_alone(n: int, rates: dict, width: int = 256) -> dict:
    """Return time and rate of forward and backward, counted as 3 products of 2M²d flops, in each precision."""
    reset_memory()
    x = torch.randn(2 * n, width, device=DEVICE, requires_grad=True)
    flops = 3 * 2 * (2 * n) ** 2 * width
    row: dict = {"nodes": n, "width": width}
    for precision in PRECISIONS:
        if precision in ("fp32", "tf32") and n > 100_000:
            continue
        seconds = median_seconds(_forward_and_backward(x, precision), 3)
        rate = flops / seconds / 1e12
        row[precision] = {"ms": 1000 * seconds, "tflops": rate, "share_of_product": rate / rates[precision]}
    o = Operands(x.detach(), 0.3, 1, "fp16")
    tiles = o.tiles("sums", lambda tiles: row_sums(o, tiles))
    for name, symmetric in (("symmetric", True), ("all_tiles", False)):
        row[f"forward_{name}_ms"] = 1000 * median_seconds(lambda s=symmetric: row_sums(o, tiles, s), 3)
    return _logged(row)


def scaling(n: int, width: int = 256) -> dict:
    """Return time and memory of the loss in fp16, forward and backward."""
    reset_memory()
    x = torch.randn(2 * n, width, device=DEVICE, requires_grad=True)
    return {
        "nodes": n,
        "ms": 1000 * median_seconds(_forward_and_backward(x, "fp16"), 1 if n > 10**5 else 5),
        "gib": peak_gib(),
    }


#: Kind of rows → standard deviation around cluster centres, number of centres (0: no clusters).
ROWS = {"random": (1.0, 0), "clustered": (0.2, 5), "nearly identical": (1e-3, 1)}


def errors(n: int, rows: str, width: int = 256) -> dict:
    """Return errors of loss and gradient against float64, in each precision and of torch's dense formula."""
    reset_memory()
    generator = torch.Generator(DEVICE).manual_seed(1)
    spread, centres = ROWS[rows]
    x = spread * torch.randn(2 * n, width, device=DEVICE, generator=generator)
    if centres:
        around = torch.randn(centres, width, device=DEVICE, generator=generator)
        x += around[torch.arange(2 * n, device=DEVICE) % n % centres]
    row: dict = {"nodes": n, "rows": rows, "temperatures": {}}
    for temperature in (0.05, 0.3, 1.0) if n < 10**5 else (0.3,):

        def measured(loss: Callable[[Tensor], Tensor], dtype: torch.dtype = torch.float32) -> tuple[float, Tensor]:
            y = x.to(dtype).requires_grad_()
            value = loss(y)
            return value.item(), torch.autograd.grad(value, y)[0]

        exact, gradient = measured(lambda y, t=temperature: tiled_loss(y, t), torch.float64)
        results = {}
        for precision in PRECISIONS:
            if n < 10**5 or precision in ("fp16", "fp32"):
                results[precision] = measured(
                    lambda y, p=precision, t=temperature: info_nce_stacked(y, t, impl="triton", precision=p)
                )
        if n < 10**5:
            for name, how in (("torch fp32", "highest"), ("torch tf32", "high")):
                torch.set_float32_matmul_precision(how)
                results[name] = measured(lambda y, t=temperature: _torch_dense(y, t))
            torch.set_float32_matmul_precision("highest")
        else:
            results["torch fp32, tiles"] = measured(lambda y, t=temperature: tiled_loss(y, t))
        row["temperatures"][str(temperature)] = {
            name: {"loss": abs(value - exact), "gradient": float((g - gradient).norm() / gradient.norm())}
            for name, (value, g) in results.items()
        }
    return _logged(row)


def _torch_dense(x: Tensor, temperature: float) -> Tensor:
    """Return the loss by its formula: the cross entropy of similarities without the diagonal."""
    z = F.normalize(x, dim=1)
    s = z @ z.T / temperature
    s.fill_diagonal_(-torch.inf)
    m = x.shape[0]
    return F.cross_entropy(s, torch.arange(m, device=x.device).roll(m // 2))


def algorithm_1() -> dict:
    """Return the time of Algorithm 1, and of the whole preparation of views, on the edges of ogbn-arxiv."""
    inputs, name = large("ogbn-arxiv", *ARXIV)
    method = epagcl.EPAGCL(device="cuda")
    return {
        "graph": name.split(", generated f")[0],
        "weights_seconds": median_seconds(lambda: edge_weights(inputs.pairs, inputs.num_nodes)),
        "prepared_seconds": median_seconds(lambda: method.prepare(inputs).adjacency(0)),
    }


def evaluation(splits: int = 20) -> dict:
    """Return the time of strict linear evaluation at the size of Coauthor-Physics, with all splits together."""
    nodes = GRAPHS["Coauthor-Physics"][0]
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 5, (nodes,), generator=generator)
    z = torch.randn(5, 256, generator=generator)[y] + 3 * torch.randn(nodes, 256, generator=generator)
    z = z.to(DEVICE)
    start = time.perf_counter()
    accuracy = epagcl.linear_evaluation(z, y, runs=splits).mean
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    seconds = median_seconds(lambda: epagcl.linear_evaluation(z, y, runs=splits), 3, 0)
    return {"nodes": nodes, "splits": splits, "seconds": seconds, "first_seconds": first, "accuracy": accuracy}
