"""Renders the table of docs/guides/training.md: `python -m tests.integrity.earned`; a test compares.

What each program of the integrity corpora would earn, by its recorded verdict.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from agent import reward
from agent.records import Correctness, Evaluation, Finding, Scope, Status

from . import corpus, run
from .page import CATEGORIES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "training.md"
BEGIN, END = "<!-- earned: begin -->", "<!-- earned: end -->"


def earned(verdict: run.Verdict) -> float:
    """What a recorded verdict is worth; the emulator's have no time."""
    kind, _, message = verdict.finding.partition(": ")
    status = Status(verdict.status)
    found = Evaluation.model_validate(
        {
            "status": status,
            "stage": verdict.stage,
            "scope": Scope(executor="emulator"),
            "findings": () if status is Status.VERIFIED else (Finding(kind=kind, message=message),),
            "correctness": Correctness(draws=1, max_abs_err=0, max_rel_err=0, error_budget_ratio=0)
            if status is Status.VERIFIED
            else None,
        }
    )
    total = reward.scored(found).total
    assert total is not None
    return total


def totals() -> dict[tuple[str, str], list[tuple[str, float]]]:
    """Name and score of each program that is judged with the screen, by kind and category."""
    known: dict[tuple[str, str], corpus.Program] = {(p.kind, p.name): p for p in corpus.programs()}
    found: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for verdict in run.read(run.RECORD):
        program = known.get((verdict.kind, verdict.name))
        if program is not None and verdict.screened and verdict.status not in ("fault", "unsupported"):
            found[program.kind, program.category].append((program.name, earned(verdict)))
    return found


WRONG = reward.scored(
    Evaluation(
        status=Status.INCORRECT, stage="verify", scope=Scope(executor="emulator"),
        findings=(Finding(kind="wrong-values", message="wrong"),),
    )
).total  # fmt: skip


def above_a_wrong_answer() -> list[str]:
    """The attacks that earn more than a wrong answer."""
    assert WRONG is not None
    return sorted(
        name for (kind, _), rows in totals().items() if kind == "attacks"
        for name, total in rows if total > WRONG
    )  # fmt: skip


def table() -> Iterator[str]:
    yield "| program | | nothing | as one that does not build | as a wrong answer | as a right answer |"
    yield "|---|---|---|---|---|---|"
    scale = reward.Scale()
    levels = (0.0, scale.parsed, scale.parsed + scale.built, scale.parsed + scale.built + scale.verified)
    found = totals()
    for kind in corpus.KINDS:
        for category, words in CATEGORIES[kind].items():
            own = [total for _, total in found[kind, category]]
            cells = [sum(abs(total - level) < 1e-9 for total in own) for level in levels]
            assert sum(cells) == len(own), (kind, category)
            yield f"| {kind} | {words} | {' | '.join(str(cell or '') for cell in cells)} |"


def render() -> str:
    """The guide with the table as it is now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n" + "\n".join(table()) + f"\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}: {len(above_a_wrong_answer())} attacks above a wrong answer\n")
