"""Training: one loop for every method, with early stopping, checkpoints and captured CUDA graphs."""

from epagcl.training.history import Callback, Look, Row, write_history
from epagcl.training.loop import adam, train
from epagcl.training.protocol import Step, Trainable

__all__ = ["Callback", "Look", "Row", "Step", "Trainable", "adam", "train", "write_history"]
