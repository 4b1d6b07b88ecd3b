"""Table 3: the cost of each method."""
