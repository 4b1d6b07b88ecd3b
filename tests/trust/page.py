"""The figures of docs/trust.md: ``python -m tests.trust.page`` inserts them from ``results/trust/*.json``."""

import json
from pathlib import Path
from typing import Any

from tests.trust.__main__ import PARTS

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "trust.md", ROOT / "results" / "trust"


def results() -> dict[str, dict[str, Any]]:
    """Return the stored results by part, in the order of the parts."""
    files = {name: RESULTS / f"{name}.json" for name in PARTS}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def cases_table() -> str:
    """Return the number of cases of each part as a Markdown table."""
    rows = ["| part | cases | failed | minutes | date |", "|---|--:|--:|--:|---|"]
    for name, result in results().items():
        minutes, date = f"{result['seconds'] / 60:,.0f}", result["date"][:10]
        rows.append(f"| `{name}` | {result['cases']:,} | {result['failed']} | {minutes} | {date} |")
    return "\n".join(rows)


def threads_table() -> str:
    """Return the largest differences between numbers of threads as a Markdown table."""
    measured = results()["reproducibility"]
    counts = [key for key in next(iter(measured["methods"].values())) if key != "same_bits"]
    heads = [f"{what}, {count}" for count in counts for what in ("embedding", "loss")]
    rows = [f"| method | one thread twice | {' | '.join(heads)} |", f"|---|---|{'--:|' * len(heads)}"]
    for name, row in measured["methods"].items():
        values = [_power(row[count][what]) for count in counts for what in ("embeddings", "losses")]
        rows.append(f"| `{name}` | {'same bits' if row['same_bits'] else 'other bits'} | {' | '.join(values)} |")
    return "\n".join(rows)


def greet_sentence() -> str:
    """Return how far GREET's results differ with other choices among equally near neighbours."""
    tied = results()["reproducibility"]["greet"]
    return (
        f"With other choices, entries of its embedding differ by up to {tied['embeddings']:.0%} of the largest one, "
        f"the loss by\n{_power(tied['losses'])}, and the cosine of a node's two embeddings is at least "
        f"{tied['least_cosine']:.3f} (bound: {tied['bound_of_cosine']})."
    )


def _power(value: float) -> str:
    return "0" if value == 0 else f"{value:.0e}".replace("e-0", "e-")


def mutation_sentence() -> str:
    """Return the outcome of mutation testing as sentences: now, and before tests were added for other draws."""
    now, earlier = results()["mutation"], json.loads((RESULTS / "mutation_earlier.json").read_text())
    packages, listed = now["packages"], len(now.get("listed_after_the_run", []))
    later = f"{listed} more change no result; they were put on the list after this run.\n" if listed else ""
    names = ", ".join(f"`{name}` {share['survived']} of {share['tested']}" for name, share in packages.items())
    return (
        f"Seed {now['seed']}: {_survived(now)} mutants survived\n({names}).\n{later}"
        f"Before these tests were added, with the mirrored tests only, seed {earlier['seed']}: {_survived(earlier)}."
    )


def _survived(result: dict[str, Any]) -> str:
    tested, survived = (sum(share[key] for share in result["packages"].values()) for key in ("tested", "survived"))
    return f"{survived} of {tested}"


def filled(text: str) -> str:
    """Return the page with its figures between the marks ``<!-- NAME -->`` and ``<!-- end -->``."""
    stored = results()
    blocks = {"cases": cases_table} | (
        {"threads": threads_table, "greet": greet_sentence} if "reproducibility" in stored else {}
    )
    blocks |= {"mutation": mutation_sentence} if "mutation" in stored else {}
    for name, block in blocks.items():
        head, mark, rest = text.partition(f"<!-- {name} -->\n")
        assert mark, f"docs/trust.md has no place for {name}"
        text = f"{head}{mark}{block()}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
