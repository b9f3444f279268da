"""Runs as terminal lines: two per run, the second dim, fitted to the terminal's width if possible."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from agent import store
from agent.cli import console
from agent.cli.verdicts import scoped
from agent.records import Scope

STATE_STYLES = {"running": "cyan", "finished": "green", "recorded": "green", "damaged": "red"}
"""Colour of each state; all others are yellow."""

Line = list[tuple[str, str]]
"""Pieces of text, each with its style."""

_INDENT = "  "


def lines(runs: Sequence[store.RunSummary], width: int) -> Iterator[Line]:
    """Yield a heading, then the lines of each run.

    The first line has id, rounds and best verdict. The next has state, problem, provider and usage. A verdict
    that does not fit gets a line of its own.
    """
    names = [console.line(run.address) for run in runs]
    # Ids are never cut, so that they can be copied.
    widest = max(map(cell_len, names), default=0)
    yield [(f"{'run':<{widest}}  {'rounds':>6}  best", "bold")]
    for name, run in zip(names, runs, strict=True):
        rounds = f"{run.rounds}/{run.planned_rounds if run.planned_rounds is not None else '?'}"
        verdict = _verdict(run.best_scope, run.speedup) if run.best_scope else "-"
        style = "green" if run.best_scope else ""
        head: Line = [(f"{name}{' ' * (widest - cell_len(name))}  {rounds:>6}", "")]
        if widest + 10 + len(verdict) <= width:
            yield [*head, (f"  {verdict}", style)]
        else:
            yield head
            yield [(f"{_INDENT}{verdict}", style)]
        yield _below(run, width)


class Spent(NamedTuple):
    """Total usage of several runs; None where no run recorded it."""

    tokens: int | None
    cost_usd: float | None
    seconds: float | None


def spent(runs: Sequence[store.RunSummary]) -> Spent:
    """Sum the known usage of the runs."""
    tokens = [run.tokens for run in runs if run.tokens is not None]
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    seconds = [run.seconds for run in runs if run.seconds is not None]
    return Spent(
        sum(tokens) if tokens else None, sum(costs) if costs else None, sum(seconds) if seconds else None
    )


def together(runs: Sequence[store.RunSummary]) -> str:
    """Return a total such as `12 runs: 120,400 tokens, $1.20, 1:02:03`.

    Returns an empty string for a single run, or if no usage is known.
    """
    whole = spent(runs)
    words = [f"{whole.tokens:,} tokens"] if whole.tokens is not None else []
    words += [f"${whole.cost_usd:.2f}"] if whole.cost_usd is not None else []
    words += [console.duration(whole.seconds)] if whole.seconds is not None else []
    return f"{len(runs)} runs: {', '.join(words)}" if words and len(runs) > 1 else ""


@lru_cache
def _verdict(scope: str, speedup: float | None) -> str:
    # The text is cached because thousands of runs share a few scopes.
    return scoped(Scope.model_validate_json(scope), speedup)


def _below(run: store.RunSummary, width: int) -> Line:
    """Return state, damage, problem, provider, model, tokens, cost and time; unknown parts are left out."""
    state: Line = [(_INDENT, ""), (run.state, STATE_STYLES.get(run.state, "yellow"))]
    if run.damaged_lines:
        noun = "line" if run.damaged_lines == 1 else "lines"
        state.append((f", {run.damaged_lines} damaged {noun}", "red"))
    told = [text for text in (run.problem, run.provider, run.model) if text]
    told += [f"{'at least ' if run.partial else ''}{run.tokens:,} tokens"] if run.tokens is not None else []
    told += [f"${run.cost_usd:.2f}"] if run.cost_usd is not None else []
    told += [console.duration(run.seconds)] if run.seconds is not None else []
    used = sum(len(text) for text, _ in state) + 2
    room = max(width - used, 20)
    text = console.short(", ".join(told), room)
    if cell_len(text) > room:
        text = set_cell_size(text, room)  # some characters take two columns
    return [*state, (f"  {text}" if text else "", "dim")]
