"""Pages as text, made from a run or a list of runs. Every printed value passes through `text.visible`.

The same templates make the server's pages and the exported file. Autoescape is on for all of them, a missing
variable is an error, and this module opens no file of a run.
"""

from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agent.bench import Bench
from agent.records import MismatchMap
from agent.store import history
from agent.store.history import DiffLine, Entry
from agent.viewer import listing, mismatch_map, text, words
from agent.viewer.bench_view import BenchView
from agent.viewer.run_view import RunView, Step
from agent.viewer.runs_list import BAR, SORTS, Listed, Query


class Panel(NamedTuple):
    """One of the views of a step."""

    name: str
    title: str

    @property
    def template(self) -> str:
        return f"panels/{self.name}.html"


class Inline(NamedTuple):
    """Parts that make a page self-contained; style and script are files of this package."""

    style: Markup
    script: Markup
    policy: str


def run_page(view: RunView, base: str, live: str | None) -> str:
    """Return the server's page of a run, with one step inlined. The other steps are fetched when opened."""
    chosen = view.chosen
    return _render(
        "run.html",
        title=f"{view.run.id} \u00b7 kernelwright",
        view=view,
        base=base,
        raw=f"{base}/raw",
        live=live,
        inlined=[chosen] if chosen else [],
    )


def part_page(view: RunView, step: Step, base: str) -> str:
    """Return the page of one step."""
    title = f"{step.name} \u00b7 {view.run.id}"
    return _render("part.html", title=title, view=view, step=step, base=base, raw=f"{base}/raw")


def run_file(view: RunView, inline: Inline) -> str:
    """Return the whole run as one document, which needs no server."""
    title = f"{view.run.id} \u00b7 kernelwright"
    return _render("run.html", title=title, view=view, base="", inline=inline, inlined=view.steps)


def runs_page(listed: Listed, query: Query, folder: str, bench: Bench | None) -> str:
    """Return one page of the list of the runs in `folder`, which belong to `bench` if given."""
    title = "runs \u00b7 kernelwright"
    return _render(
        "runs.html", title=title, listed=listed, query=query, folder=folder, sorts=SORTS, bar=BAR,
        bench=bench.id if bench else None,
    )  # fmt: skip


def bench_page(view: BenchView, live: str | None) -> str:
    """Return the page of a bench, which fills up as its runs progress."""
    title = f"{view.report.bench.id} \u00b7 kernelwright"
    return _render("bench.html", title=title, view=view, live=live)


def prepare() -> None:
    """Compile every template, so that the first page is as fast as the later ones."""
    environment = _environment()
    for name in environment.list_templates():
        environment.get_template(name)
    listing.listing("warm = 1")


def message_page(title: str, line: str) -> str:
    return _render("message.html", title=title, text=line)


def _render(template: str, **content: Any) -> str:
    defaults: dict[str, Any] = {"inline": None, "raw": None, "live": None}
    return _environment().get_template(template).render(defaults | content)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("agent.viewer", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.filters |= {
        name: getattr(words, name)
        for name in (
            "amount", "cost", "duration", "gain", "milliseconds", "moment", "place", "ratio", "spread",
            "status", "tensor", "times", "tokens", "verdict",
        )
    }  # fmt: skip
    environment.filters |= {
        "cut": text.cut,
        "listing": listing.listing,
        "drawing": _drawing,
        "panels": _panels,
        "diff": _diff,
        "origin": _origin,
    }
    return environment


def _visible(value: Any) -> Any:
    """Make a value visible before it is escaped; applied to every expression of a template."""
    return text.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _panels(step: Step, view: RunView) -> list[Panel]:
    entry = step.entry
    panels = [Panel("source", "Source")] if entry else []
    if entry and entry.parent is not None and view.history.entry(entry.parent):
        panels.append(Panel("diff", "Diff"))
    if step.round.completion and not _is_mend(entry):
        panels.append(Panel("answer", "Answer"))
    if step.round.prompt and not _is_mend(entry):
        panels.append(Panel("prompt", "Prompt"))
    return [*panels, Panel("evidence", "Evidence")] if entry else panels


def _is_mend(entry: Entry | None) -> bool:
    return entry is not None and entry.attempt.candidate.origin == "mend"


def _diff(entry: Entry, view: RunView) -> tuple[DiffLine, ...] | None:
    parent = view.history.entry(entry.parent) if entry.parent is not None else None
    if parent is None:
        return None
    return history.diff(parent.attempt.candidate.source, entry.attempt.candidate.source)


def _origin(entry: Entry) -> str:
    """Describe the origin of an attempt: `the model, after attempt 2`, `a mend of attempt 1`."""
    origin = entry.attempt.candidate.origin
    if origin == "mend":
        return f"a mend of attempt {entry.parent}" if entry.parent is not None else "a mend"
    who = f"the {origin}"
    return f"{who}, after attempt {entry.parent}" if entry.parent is not None else who


def _drawing(recorded: MismatchMap) -> mismatch_map.Drawing:
    return mismatch_map.draw(recorded)
