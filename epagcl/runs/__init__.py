"""A run: train, embed, evaluate, and write a folder that records what was done and what came out."""

from epagcl.runs.evaluation import Plan, evaluate, references, split_of, unfit_labels
from epagcl.runs.execute import merge, run, run_seeds, trained_metrics
from epagcl.runs.export import read_embeddings, write_embeddings, write_projector
from epagcl.runs.folder import claim
from epagcl.runs.provenance import describe, peak_memory_gib, provenance

__all__ = [
    "Plan",
    "claim",
    "describe",
    "evaluate",
    "merge",
    "peak_memory_gib",
    "provenance",
    "read_embeddings",
    "references",
    "run",
    "run_seeds",
    "split_of",
    "trained_metrics",
    "unfit_labels",
    "write_embeddings",
    "write_projector",
]
