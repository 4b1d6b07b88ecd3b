"""Accuracy of EPAGCL with the recipes' settings, beside raw features and the untrained encoder, by both protocols."""

import epagcl
from epagcl.evaluation import linear_evaluation
from epagcl.hardware import resolve_device
from epagcl.recipes import recipe
from epagcl.runs import Plan, describe, merge, provenance, references


def accuracy(name: str, seeds: int = 5, epochs: int | None = None, device: str = "auto") -> dict:
    """Seed k trains model k and is scored on split k, last epoch, by the strict protocol and by the paper's."""
    data = epagcl.load(name)
    settings = {key: value for key, value in recipe(name, "epagcl").items() if key != "source"}
    if epochs is not None:
        settings["epochs"] = epochs
    settings["device"] = device
    where = resolve_device(device)
    scores: dict[str, dict[str, list]] = {}
    seconds = []
    for seed in range(seeds):
        model = epagcl.EPAGCL(**settings, seed=seed).fit(data)
        seconds.append(model.history_[-1]["seconds"] / model.epochs)
        z = model.embed(data).to(where)
        for protocol in ("strict", "paper"):
            rows = scores.setdefault(protocol, {})
            for row, result in references(data, model, Plan(protocol, 1)).items():
                rows.setdefault(row, []).append(result)
            result = linear_evaluation(z, data.y, protocol, runs=1, seed=seed).to_dict()
            rows.setdefault("EPAGCL", []).append(result)
    return {
        **provenance(device),
        "command": f"python -m benchmarks accuracy {name.lower()} --seeds {seeds}"
        + (f" --epochs {epochs}" if epochs is not None else ""),
        "graph": describe(data, data.name),
        "settings": model.settings() | {"seed": f"0–{seeds - 1}"},
        "seconds_per_epoch": min(seconds),
        "protocols": {
            protocol: {row: merge(results) for row, results in rows.items()} for protocol, rows in scores.items()
        },
    }
