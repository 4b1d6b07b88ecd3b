"""Evaluation protocols: how the linear classifier is fitted and what is chosen on validation nodes."""

from dataclasses import dataclass

PROTOCOLS = ("strict", "paper", "public")


@dataclass(frozen=True)
class Rule:
    """How a protocol fits its softmax regression and what it may choose on validation nodes.

    Attributes:
        decays: strengths of the ℓ2 penalty to choose from, strongest first.
        steps: number of Adam steps (learning rate 0.01, full batch).
        every: number of steps between two evaluations of the validation accuracy.
        rescale: divide z by its root mean square, one number for the whole embedding. Learning rate and penalty then do
            not depend on the scale of the embedding.
        random_start: start from the random initial weights of ``nn.Linear``. Otherwise the weights start at zero and
            the fit is deterministic.

    Examples:
        >>> Rule(decays=(0.1,), steps=100, every=10, rescale=True, random_start=False).steps
        100
    """

    decays: tuple[float, ...]
    steps: int
    every: int
    rescale: bool
    random_start: bool


#: The rule of the protocols ``strict`` and ``public``.
STRICT = Rule(decays=(1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001), steps=300, every=20, rescale=True, random_start=False)
#: The rule of the protocol ``paper``.
PAPER = Rule(decays=(0.0,), steps=3000, every=1, rescale=False, random_start=True)


def rule_of(protocol: str) -> Rule:
    """Return the rule of a protocol.

    Examples:
        >>> rule_of("paper").steps
        3000
    """
    return PAPER if protocol == "paper" else STRICT
