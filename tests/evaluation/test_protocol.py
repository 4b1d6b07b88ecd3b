from epagcl.evaluation.protocol import PAPER, PROTOCOLS, STRICT, Rule, rule_of


def test_paper_has_its_own_rule_and_public_that_of_strict():
    assert {protocol: rule_of(protocol) for protocol in PROTOCOLS} == {
        "strict": STRICT,
        "paper": PAPER,
        "public": STRICT,
    }


def test_the_rule_of_the_paper_is_published():
    """Softmax regression without decay, 3000 steps, the best validation step."""
    assert (PAPER.decays, PAPER.steps, PAPER.every) == ((0.0,), 3000, 1)


def test_the_rules_in_full():
    """What docs and the reports say of the protocols."""
    assert Rule(decays=(0.0,), steps=3000, every=1, rescale=False, random_start=True) == PAPER
    decays = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    assert Rule(decays=decays, steps=300, every=20, rescale=True, random_start=False) == STRICT
