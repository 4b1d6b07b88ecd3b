"""TODO."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """How a protocol fits its softmax regression and what it may choose on validation nodes.

    Attributes:
        decays: strengths of the ℓ2 penalty to choose from, strongest first.
        steps: steps of Adam (learning rate 0.01, full batch).
        every: steps between looks at the validation accuracy.
        rescale: divide z by its root mean square, one number for the whole embedding, so that a learning rate and a
            penalty mean the same whatever the scale a method happens to leave its embedding at.
        random_start: initial weights of ``nn.Linear``; else zero, and the fit is deterministic.
    """

    decays: tuple[float, ...]
    steps: int
    every: int
    rescale: bool
    random_start: bool


STRICT = Rule(decays=(1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001), steps=300, every=20, rescale=True, random_start=False)


PAPER = Rule(decays=(0.0,), steps=3000, every=1, rescale=False, random_start=True)


PROTOCOLS = ("strict", "paper", "public")
