from epagcl.cli.rendering import comparison_cells
from epagcl.data import block_model
from tests.study.conftest import SMALL, compare, row


def test_a_users_graph_with_the_name_of_a_named_graph_has_no_published_figures(tmp_path):
    data = block_model(60, num_classes=3, num_features=20, topic_words=5, words_per_node=5)
    for named, figure in ((False, "–"), (True, "85.3 ± 0.3")):
        options = {"seeds": 1, "protocols": ["strict"], "settings": SMALL, "named": named}
        result = compare(data, "Cora", row("grace"), tmp_path / str(named), **options)
        assert comparison_cells("Cora", result, ["strict"])[2] == figure
