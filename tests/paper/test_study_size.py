from epagcl.paper.study_size import seeds_of


def test_small_graphs_and_those_of_most_claims_have_more_seeds():
    assert (seeds_of("Texas"), seeds_of("Cora"), seeds_of("Flickr")) == (20, 20, 10)
