import numpy as np
import pytest

from epagcl.core.formatting import signed
from epagcl.paper.sensitivity.reading import reading
from tests.paper.conftest import result
from tests.paper.sensitivity_demo import demo_result


@pytest.fixture(scope="module")
def made():
    return demo_result()


def test_words_and_numbers_agree(made):
    first, second, tuning, variance, scores, rule = reading(made)
    assert first.startswith("**EPAGCL is most sensitive to τ, and least to ")
    assert "as a mean over 2 graphs: τ 8.0, epochs 4.0, " in first
    assert "explains: τ on 2, epochs on 2, " in first
    assert "The widest sweep is τ on Cora: 66.0 at 0.1, 74.0 at 1, and 70.0 at the default 0.3." in first
    assert second.startswith("**EPAGCL+ is most sensitive to width, and least to ")
    assert "width on 2, " in second
    # Validation follows the test accuracy: τ to 1 (+4), epochs to 1000 (+1) and width to 512 (+0.5), on both graphs.
    assert f"by {signed(2 * (4 + 1 + 0.5) / 24, 2)} points on average** over 24 sweeps" in tuning
    assert "from +0.0 to +4.0); in 18 the validation nodes keep the default" in tuning
    assert "the largest gain is +4.0 (EPAGCL on Cora, τ 0.3 to 1)" in tuning
    # Variance of seeds: 1 and 16; of splits: 5.
    assert "spend on seeds first" in variance
    assert "splits make up 24% to 83%, training seeds 17% to 76%, and their interaction 0%." in variance
    assert "in 2 of 4 pairs of graph and method; seeds do for EPAGCL+ on Cora, EPAGCL+ on Chameleon." in variance
    errors = [
        np.mean([(seeds + 5 / 10) ** 0.5 for seeds in (1, 16)]),
        np.mean([(seeds / 10 + 5) ** 0.5 for seeds in (1, 16)]),
        np.mean([((seeds + 5) / 10) ** 0.5 for seeds in (1, 16)]),
    ]
    for error in errors:
        assert f"{error:.2f}" in scores
    assert rule.startswith("**Nothing was chosen here.**")


def test_the_advice_follows_the_larger_variance(made):
    only = {**made, "crossed": [one for one in made["crossed"] if one["row"] == "EPAGCL"]}
    assert "**Seeds or splits: spend on splits first.**" in " ".join(reading(only))
    assert "in 2 of 2 pairs of graph and method. Another" in " ".join(reading(only))


def test_without_validation_or_runs_there_is_less_to_say():
    assert not [one for one in reading(demo_result(("Cora",), validation=False)) if "Tuning one setting" in one]
    assert reading(result([], crossed=[])) == []
