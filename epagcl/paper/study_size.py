"""The graphs of the study, and how many seeds each needs."""

#: Homophilous graphs first.
GRAPHS: tuple[str, ...] = (
    *("Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Amazon-Computers", "Coauthor-CS", "Coauthor-Physics", "Facebook"),
    *("Flickr", "Texas", "Cornell", "Wisconsin", "Chameleon", "Squirrel", "Actor"),
)
#: Seeds of each graph: more on the graphs that are small, or on which most claims rest.
MANY, FEW = 20, 10
MANY_ON = ("Cora", "CiteSeer", "PubMed", "Amazon-Photo", "Texas", "Cornell", "Wisconsin", "Chameleon")


def seeds_of(graph: str) -> int:
    """Return the number of seeds that the study needs on a graph.

    Examples:
        >>> seeds_of("Cora"), seeds_of("Squirrel")
        (20, 10)
    """
    return MANY if graph in MANY_ON else FEW
