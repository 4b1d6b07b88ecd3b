"""An invented result of the operators, small enough to check by hand."""


def operator(per_node, estimate, messages, *accuracy):
    relative = per_node / 0.8
    row = {"per_node": per_node, "per_edge": per_node, "relative": relative, "estimate": estimate}
    row |= {"messages": messages, "gain": max(1 - relative, 0) ** 2 * messages}
    return row | {"estimated_gain": max(1 - estimate, 0) ** 2 * messages, "accuracy": [a / 100 for a in accuracy]}


def graph(structure, **operators):
    size = {"nodes": 100, "edges": 200, "classes": 5, "chance": 0.8, "structure": structure, "device": "cpu"}
    return size | {"operators": operators}


def invented():
    """Return two graphs: on the first the gain chooses right, on the second raw features are best."""
    calm = graph(
        0.9,
        X=operator(0.0, 0.0, 1.0, 60, 62),
        A=operator(0.08, 0.2, 4.0, 80, 82),
        P=operator(0.4, 0.6, 20.0, 84, 86),
    )
    noisy = graph(
        0.5,
        X=operator(0.0, 0.0, 1.0, 70, 70),
        A=operator(0.6, 0.5, 4.0, 50, 50),
        P=operator(0.72, 0.7, 20.0, 40, 40),
    )
    asked = {"datasets": ["calm", "noisy"], "runs": 2, "seeds": [0, 1], "protocols": ["strict"]}
    return {"graphs": {"calm": calm, "noisy": noisy}, "absent": {}, "asked": asked}
