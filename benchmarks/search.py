"""Compares the policies of a search at equal tokens, on a simulated model: `python -m benchmarks.search`.

The model's answers have faults and speeds by chance, by the shares in search_model.toml, which were written
down before. Everything else is real: policies, tree, loop, prompts. A candidate carries what it is in its
text, so that the model reads from a prompt, as a real one does, what it is shown. Nothing is built or timed.

With `--page` writes the tables of docs/search.md. 200 seeds take half an hour on one core.
"""

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from agent.confirming import Beside
from agent.loop import Terms, solve
from agent.protocols import Pacing
from agent.records import Completed, Evaluated, Event, Prompt
from benchmarks.search_simulation import PARAMETERS, PROBLEM, Judge, Model, Nature, World

PAGE = Path(__file__).resolve().parents[1] / "docs" / "search.md"
MARKS = ("<!-- simulation -->", "<!-- end of simulation -->")
SEEDS = 200
VARIED_SEEDS = 60
"""For each of the tables where one assumption is another."""
SEARCHES: dict[str, dict[str, Any]] = {
    "line": {"search": "line"},
    "beam 2x1": {"search": "beam", "samples": 2, "width": 1},
    "beam 3x2": {"search": "beam", "samples": 3, "width": 2},
    "beam 4x2": {"search": "beam", "samples": 4, "width": 2},
    "evolve 3x2": {"search": "evolve", "samples": 3, "width": 2},
}
"""Samples and width."""
BUDGETS = (6, 12, 24)
"""In rounds of the line: tokens of so many later rounds, for every policy."""
DEFAULT = 6
"""Of `--rounds`."""
NEVER = 10_000
"""A patience that is never at its end: the tokens alone end a search."""
COMPARED = ("line", "beam 3x2", "evolve 3x2")
MODELS = ("strong", "weak")
DELIVERED = "beam 4x2"
"""The default on a GPU."""


class Run:
    """One search: a `Pace` that stops at its tokens, and a transcript that keeps the best by when."""

    def __init__(self, tokens: int, each: int) -> None:
        self._tokens, self._each = tokens, each
        self.spent = self.rounds = 0
        self.course: list[tuple[int, float]] = []
        """Tokens spent, and the best speedup that was verified by then."""

    def begins(self, prompt: Prompt, beside: int) -> bool:
        return beside == 0 and self.spent + self._each <= self._tokens

    def turn(self) -> int | None:
        return None

    def append(self, event: Event) -> None:
        if isinstance(event, Completed):
            usage = event.completion.usage
            self.spent += (usage.input_tokens or 0) + (usage.output_tokens or 0)
            self.rounds += 1
        elif isinstance(event, Evaluated) and event.attempt.evaluation.measurement:
            speedup = event.attempt.evaluation.measurement.speedup or 0.0
            best = max(speedup, self.course[-1][1] if self.course else 0.0)
            self.course.append((self.spent, best))

    def at(self, tokens: int) -> float:
        """The best speedup for so many tokens; 0 where nothing was verified."""
        return max((best for spent, best in self.course if spent <= tokens), default=0.0)


def searched(name: str, nature: Nature, seed: int, rounds: int, patience: int) -> Run:
    """One search with the tokens of `rounds` later rounds."""
    each = nature.prompt_later + nature.answer
    judge, made = Judge(World(nature, seed)), Run(rounds * each, each)
    given = {"rounds": 10_000, "patience": patience, "gpu": "H200", **SEARCHES[name]}
    pacing = Pacing(Beside(PROBLEM, judge), made)
    solve(PROBLEM, Model(nature, seed), judge, made, Terms.model_validate(given), pacing)
    return made


def cell(speedups: Sequence[float], beside: Sequence[float]) -> str:
    """`2.31, +4 % ±1, 97 %`: the geometric mean of the speedups over the baseline; by how much it is above
    that of `beside`, problem by problem, with its standard error; the share verified.

    Where nothing is verified or faster, the baseline stays: a speedup of 1.
    """
    mine, its = ([log(max(1.0, speedup)) for speedup in given] for given in (speedups, beside))
    share = sum(speedup > 0 for speedup in speedups) / len(speedups)
    apart = [a - b for a, b in zip(mine, its, strict=True)]
    gain = exp(fmean(apart)) - 1
    error = stdev(apart) / len(apart) ** 0.5
    against = f", {100 * gain:+.0f} % ±{100 * error:.0f}" if any(apart) else ""
    return f"{exp(fmean(mine)):.2f}{against}, {100 * share:.0f} %"


def mean(speedups: Sequence[float]) -> float:
    """The first number of a cell."""
    return exp(fmean(log(max(1.0, speedup)) for speedup in speedups))


def at_equal_tokens(model: str, seeds: int) -> Iterator[str]:
    """A table: for each budget and search the expected best and the share of problems with a kernel."""
    nature = Nature.read(model)
    each = nature.prompt_later + nature.answer
    made = {
        name: [searched(name, nature, seed, max(BUDGETS), NEVER) for seed in range(seeds)]
        for name in SEARCHES
    }
    yield f"| {model} model, tokens of | {' | '.join(SEARCHES)} |"
    yield "|---|" + "---|" * len(SEARCHES)
    for rounds in BUDGETS:
        best = {name: [one.at(rounds * each) for one in made[name]] for name in SEARCHES}
        cells = [cell(best[name], best["line"]) for name in SEARCHES]
        yield f"| {rounds} rounds | {' | '.join(cells)} |"


def as_delivered(model: str, seeds: int) -> Iterator[str]:
    """A table: what each search comes to by itself within the default budget, and what it uses."""
    nature = Nature.read(model)
    each = nature.prompt_later + nature.answer
    asked = f"{model} model, `--rounds 6`, `--patience 2`"
    yield f"| {asked} | best, against line, verified | rounds | tokens for a kernel |"
    yield "|---|---|---|---|"
    line: list[float] = []
    for name in SEARCHES:
        made = [searched(name, nature, seed, DEFAULT, 2) for seed in range(seeds)]
        best = [one.at(DEFAULT * each) for one in made]
        line = line or best
        used, rounds = sum(one.spent for one in made), fmean(one.rounds for one in made)
        found = max(1, sum(speedup > 0 for speedup in best))
        yield f"| {name} | {cell(best, line)} | {rounds:.1f} | {used / found:,.0f} |"


def varied(model: str, rounds: int, seeds: int) -> Iterator[str]:
    """A table: the same where one assumption is another; the best of each line stands out."""
    given = tomllib.loads(PARAMETERS.read_text(encoding="utf-8"))
    plain = Nature.read(model)
    changes: list[dict[str, Any]] = [{}]
    changes += [{name: value} for name, values in given["varied"].items() for value in values]
    yield f"| {model} model, {rounds} rounds | {' | '.join(COMPARED)} |"
    yield "|---|" + "---|" * len(COMPARED)
    for change in changes:
        nature = replace(plain, **change)
        each = nature.prompt_later + nature.answer
        means = [
            mean([searched(name, nature, seed, rounds, NEVER).at(rounds * each) for seed in range(seeds)])
            for name in COMPARED
        ]
        cells = [f"**{one:.2f}**" if one == max(means) else f"{one:.2f}" for one in means]
        what = ", ".join(f"{name} {value}" for name, value in change.items()) or "as above"
        yield f"| {what} | {' | '.join(cells)} |"


def perfect(model: str, seeds: int) -> Iterator[str]:
    """A table: the default search, where what evidence may better is as good as it can be."""
    given = tomllib.loads(PARAMETERS.read_text(encoding="utf-8"))
    plain = Nature.read(model)
    yield f"| {model} model, {DELIVERED}, {DEFAULT} rounds | best, against as above, verified |"
    yield "|---|---|"
    before: list[float] = []
    for name, value in (("", 0.0), *given["perfect"].items()):
        nature = replace(plain, **({name: value} if name else {}))
        each = nature.prompt_later + nature.answer
        best = [searched(DELIVERED, nature, seed, DEFAULT, NEVER).at(DEFAULT * each) for seed in range(seeds)]
        before = before or best
        what = f"{name} {getattr(plain, name):g} -> {round(value, 3):g}" if name else "as above"
        yield f"| {what} | {cell(best, before)} |"


def tables(seeds: int) -> str:
    """All of them, as Markdown."""
    parts: list[str] = []
    for model in MODELS:
        parts += [*at_equal_tokens(model, seeds), "", *as_delivered(model, seeds), ""]
    for model in MODELS:
        parts += [*varied(model, DEFAULT, min(seeds, VARIED_SEEDS)), ""]
    for model in MODELS:
        parts += [*perfect(model, seeds), ""]
    return "\n".join(parts)


def main() -> int:
    options = argparse.ArgumentParser(description="Compares the policies on a simulated model.")
    options.add_argument("--seeds", type=int, default=SEEDS)
    options.add_argument("--page", action="store_true", help="write the tables of docs/search.md")
    asked = options.parse_args()
    text = tables(asked.seeds)
    if asked.page:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(MARKS[0])
        PAGE.write_text(
            f"{before}{MARKS[0]}\n\n{text}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}", encoding="utf-8"
        )
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
