from epagcl.evaluation.protocol import PAPER, PROTOCOLS, STRICT, rule_of


def test_paper_has_its_own_rule_and_public_that_of_strict():
    assert {protocol: rule_of(protocol) for protocol in PROTOCOLS} == {
        "strict": STRICT,
        "paper": PAPER,
        "public": STRICT,
    }


def test_the_rule_of_the_paper_is_published():
    """Softmax regression without decay, 3000 steps, the best validation step."""
    assert (PAPER.decays, PAPER.steps, PAPER.every) == ((0.0,), 3000, 1)
