from epagcl.paper.operators.reading import reading
from tests.paper.operators_demo import invented


def test_text_follows_the_numbers():
    alone, gain, without_labels, estimate, structure = reading(invented())
    assert "alone does not predict" in alone
    assert "the best operator on 1 of 2 graphs (noisy) and lose 12.0 points" in alone
    assert "mean rank correlation of low EPR with accuracy is +0.00" in alone
    assert "**The gain predicts which operator wins**" in gain
    assert "is +1.00, it chooses the best operator on 2 of 2 graphs, and it loses 0.0 points on average." in gain
    assert "all graphs (X), chosen on the same graphs, loses 12.0 points" in gain
    assert gain.endswith("does not decide the difference to X for all graphs (p = 1).")
    assert "at least 2 on noisy (30.0, P)" in without_labels
    assert "the best on 1 of 2 graphs and loses 5.0 points" in without_labels
    assert "differs from EPR / chance by 0.16" in estimate
    assert "better than none on 1 of 2 graphs" in structure
    assert "It is at least 0.90 where propagation helps. The other graphs: noisy (0.50)." in structure


def test_many_graphs_decide_between_the_gain_and_one_operator():
    graphs = invented()["graphs"]
    many = {"graphs": {f"{name} {number}": graph for name, graph in graphs.items() for number in range(6)}}
    # X loses on the six graphs on which the gain chooses another operator: 2 of 2⁶ patterns of signs
    assert reading(many)[1].endswith("over the graphs decides the difference to X for all graphs (p = 0.031).")


def test_clear_differences_of_the_estimate_are_named():
    result = invented()
    estimate = reading(result)[3]
    assert "too low on noisy (-0.22)" in estimate
    assert "too high" not in estimate
    for row in result["graphs"]["calm"]["operators"].values():
        row["estimate"] += 0.3
    assert "too high on calm (+0.40)" in reading(result)[3]


def test_verb_follows_the_choices():
    result = invented()
    assert "**It does not predict which operator wins**" in reading(result)[2]  # it loses more than raw features
    for graph in result["graphs"].values():
        for row in graph["operators"].values():
            row["gain"] = -row["gain"]
    assert "**The gain does not predict which operator wins**" in reading(result)[1]
    result["graphs"]["noisy"]["operators"]["A"] |= {"estimated_gain": 9.0, "accuracy": [0.65, 0.65]}
    # It loses 0 and 5 points. The best single operator, A, loses 4 and 5.
    assert "**It partly predicts which operator wins**" in reading(result)[2]


def test_nothing_was_measured():
    assert reading({"graphs": {}}) == ["None of the graphs could be loaded, so nothing was measured."]
