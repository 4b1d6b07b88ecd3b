"""A run: train, embed, evaluate, and write a folder that documents settings, results and provenance."""

from epagcl.data.splits import published_splits
from epagcl.runs.evaluation import Plan, evaluate, merge, references, split_of, unfit_labels
from epagcl.runs.execute import run, run_seeds, trained_metrics
from epagcl.runs.export import write_embeddings, write_projector
from epagcl.runs.folder import claim
from epagcl.runs.reading import read_embeddings
from epagcl.runs.record import describe, peak_memory_gib, provenance
from epagcl.runs.reproduction import compare_runs, reproduce
from epagcl.runs.shards import write_shards

__all__ = [
    "Plan",
    "claim",
    "compare_runs",
    "describe",
    "evaluate",
    "merge",
    "peak_memory_gib",
    "provenance",
    "published_splits",
    "read_embeddings",
    "references",
    "reproduce",
    "run",
    "run_seeds",
    "split_of",
    "trained_metrics",
    "unfit_labels",
    "write_embeddings",
    "write_projector",
    "write_shards",
]
