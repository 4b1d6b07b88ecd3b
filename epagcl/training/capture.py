"""When an epoch is captured as a CUDA graph."""

from epagcl.core.hardware import has_triton
from epagcl.data.graph import Graph
from epagcl.training.protocol import Trainable

WARM_UP = 3  # epochs before the capture, to initialise libraries, compile kernels and choose tile sizes
SMALL = 65_536  # up to this many nodes, launching the kernels can take longer than running them


def reason_not_to_capture(method: Trainable, graph: Graph) -> str:
    """Return why epochs run without a CUDA graph, or "" if they are to be captured."""
    if graph.device.type != "cuda":
        return f"no CUDA graphs on {graph.device.type}"
    if graph.part is not None:
        return "several ranks exchange rows of changing sizes"
    if method.capture == "off":
        return "capture = off"
    if not has_triton(graph.device):
        return "without Triton, views are compacted and their sizes change"
    if method.capture == "auto" and graph.num_nodes > SMALL:
        return f"above {SMALL:,} nodes the GPU is busy without it"
    return ""
