"""Train on several ranks from Python: all ranks make the same calls, and rank 0 writes.

Run it with ``torchrun --nproc-per-node 2 examples/distributed/own_script.py``.
"""

from pathlib import Path

import epagcl
from epagcl.distributed import several_ranks


def main() -> None:
    """Train EPAGCL on the demo graph, and save the model on rank 0."""
    data = epagcl.load("demo")
    with several_ranks() as ranks:
        model = epagcl.EPAGCL(epochs=5, hidden=64, dim=32, projection=32)
        # After a restart by torchrun, training goes on from the checkpoint, which rank 0 writes.
        model.fit(data, checkpoint=Path("checkpoint.safetensors"), resume=True)
        z = model.embed(data)  # the rows of all nodes, on every rank
        if ranks.is_first:
            model.save("model")
            print(f"{ranks.size} ranks, loss {model.history_[-1]['loss']:.4f}, embedding {tuple(z.shape)}")


if __name__ == "__main__":
    main()
