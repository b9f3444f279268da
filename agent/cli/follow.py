"""Live view of a run for `agent show RUN --follow`: prints each event until no process writes the run."""

import time
from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from agent import store
from agent.cli import console, run_tree
from agent.records import (
    Completed,
    Evaluated,
    Event,
    Prompted,
    ReplyRejected,
    RetryScheduled,
    RunFinished,
    SecondLook,
    Unconfirmed,
    Unjudged,
)
from agent.store import history
from agent.store.log import Damage, Log
from agent.store.tail import Tail

POLL_S = 0.25
"""Seconds between two reads of the file."""


def follow(run: store.Run) -> None:
    """Print past and new events; return once the run or its process has ended.

    The run is only read, so Ctrl-C does not stop it.
    """
    tail = Tail(run)
    made: dict[str, Evaluated] = {}
    last: Event | None = None
    while True:
        found, alive = tail.look()
        for event in found:
            if isinstance(event, Damage):
                console.warn(f"events.jsonl, {event}")
                continue
            console.show(*_told(event, made))
            if isinstance(event, Evaluated):
                made[event.attempt.candidate.id] = event
            last = event
        if not alive:
            break
        time.sleep(POLL_S)
    if not isinstance(last, RunFinished):
        console.show(
            Text(
                f"no process is writing this run; continue it with: agent run --resume {console.line(run.id)}"
            )
        )


def _told(event: Event, made: dict[str, Evaluated]) -> Iterator[RenderableType]:
    """Yield the lines that describe one event. `made` maps candidate ids to earlier attempts."""
    match event:
        case Prompted():
            after = run_tree.came_from(event.round, event.move, event.prompt.template)
            yield Text(f"round {event.round}{after}: asked ({event.prompt.template})")
        case RetryScheduled():
            yield Text(f"asking again in {console.duration(event.wait_seconds)}:")
            yield _below(event.reason)
        case Completed():
            usage, took = event.completion.usage, event.completion.seconds
            size = run_tree.tokens(usage.input_tokens, usage.output_tokens)
            size = size or f"{len(event.completion.text):,} characters"
            after = f", {console.duration(took)}" if took is not None else ""
            yield Text(f"round {event.round}: answered, {size}{after}")
        case ReplyRejected():
            yield Text(f"round {event.round}: no candidate", style="red")
            yield _below(event.feedback.text)
        case Evaluated():
            parent = made.get(event.attempt.candidate.parent or "")
            entry = history.build_history(Log(events=(parent, event) if parent else (event,))).entries[-1]
            yield Text(f"round {event.round}: ").append(run_tree.verdict(entry))
            if entry.cause:
                yield _below(run_tree.cause(entry.cause))
        case Unjudged():
            yield Text(f"round {event.round}: ").append(run_tree.unjudged(event))
        case SecondLook():
            found = event.evaluation
            yield run_tree.second_look(event)
            if found.withdrawn and found.headline:
                yield _below(run_tree.cause(found.headline))
        case Unconfirmed():
            yield run_tree.unconfirmed(event)
        case RunFinished():
            yield Text(f"{event.outcome}:")
            yield _below(event.reason)
        case _:
            yield Text(f"{console.line(event.problem.name)}, provider {console.line(event.provider)}")


def _below(text: str) -> Padding:
    return Padding(Text(console.short(text, run_tree.MESSAGE_CHARS)), (0, 0, 0, 4))
