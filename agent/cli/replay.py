"""`agent replay RUN`: judge stored candidates again and report changed verdicts."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agent import config, store
from agent.api import Checks, Judge
from agent.api.checks import with_requirements
from agent.cli import console, judging
from agent.cli.telling import telling
from agent.cli.verdicts import STYLES, brief
from agent.errors import UsageError
from agent.records import SCHEMA_VERSION, Attempt, Status

CAUSE_CHARS = 320
"""Maximum characters of a cause, about four terminal lines."""


class Again(NamedTuple):
    """One attempt as recorded and as judged now."""

    recorded: Attempt
    fresh: Attempt

    @property
    def judged(self) -> bool:
        """Return True if the new verdict can be compared with the recorded one.

        A new `unsupported` says only that another executor may judge the candidate.
        """
        statuses = (self.recorded.evaluation.status, self.fresh.evaluation.status)
        return statuses[1] is not Status.UNSUPPORTED or statuses[0] is Status.UNSUPPORTED

    @property
    def changed(self) -> bool:
        return self.judged and self.recorded.evaluation.status is not self.fresh.evaluation.status

    @property
    def outcome(self) -> str:
        """Return `CHANGED`, `same` or `not judged`."""
        return "CHANGED" if self.changed else "same" if self.judged else "not judged"


def replay(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Path, id, unique prefix of an id, or recorded/NAME.")
    ],
    executor: judging.Executor = None,
    isolation: judging.Sandbox = None,
    unchecked: judging.Unchecked = False,
    candidate_timeout: judging.Timeout = None,
    library_ops: judging.LibraryOps = None,
    quick: judging.Quick = False,
    runs_dir: console.RunsDir = None,
    json: console.Json = False,
    verbose: console.Verbose = False,
    quiet: console.Quiet = False,
) -> None:
    """Judge a run's stored candidates again, under the run's requirements, and compare the verdicts.

    Exits 1 if a verdict differs, 5 if none differs but this executor cannot judge all of them.
    """
    flags = {
        "executor": executor,
        "sandbox": isolation,
        "unchecked": unchecked or None,
        "candidate_timeout": candidate_timeout,
        "library_ops": library_ops,
        "runs_dir": runs_dir,
    }
    settings = config.load(flags, offline=True).settings
    found = store.open_run(run, settings.runs_dir)
    log = found.read()
    if log.started is None or not log.attempts:
        raise UsageError(f"run {found.address} has no judged candidate; see: agent show {found.address}")
    if log.unjudged:
        numbers = ", ".join(str(event.number) for event in log.unjudged)
        console.say(f"skipped because they were never judged: attempt {numbers}")
    asked = found.info.settings.options
    stored = {name: asked.get(name) is True for name in ("backward", "compile_safe")}
    checks = with_requirements(
        Checks(quick=quick, admit_anyway=True, **stored), str(asked.get("require", ""))
    )
    again = []
    with telling() as told:
        judge = Judge(log.started.problem, checks=checks, progress=told, settings=settings)
        for attempt in log.attempts:
            console.say(f"judging attempt {attempt.number} of {len(log.attempts)} again")
            evaluation = judge.evaluate(attempt.candidate)
            again.append(Again(attempt, attempt.model_copy(update={"evaluation": evaluation})))
    _report(found.address, again, json)
    raise typer.Exit(exit_code(again))


def exit_code(again: Sequence[Again]) -> int:
    """Return 1 if a verdict changed, 5 if none changed but some could not be judged here, otherwise 0."""
    if any(pair.changed for pair in again):
        return 1
    return 0 if all(pair.judged for pair in again) else 5


def _report(address: str, again: Sequence[Again], json: bool) -> None:
    if json:
        attempts = [
            {"number": pair.recorded.number, "changed": pair.changed, "judged": pair.judged,
             "recorded": pair.recorded.evaluation, "fresh": pair.fresh.evaluation}
            for pair in again
        ]  # fmt: skip
        console.emit_json({"schema_version": SCHEMA_VERSION, "run": address, "attempts": attempts})
        return
    console.show(_table(again))
    for pair in again:
        cause = pair.fresh.evaluation.headline
        if cause and pair.outcome != "same":
            told = console.short(f"{cause.kind}: {cause.message}", CAUSE_CHARS)
            console.show(Padding(Text(f"attempt {pair.recorded.number}  {told}"), (0, 0, 0, 1)))
    console.say(f"{address}: {_sum(again)}")


def _table(again: Sequence[Again]) -> Table:
    """Return a table with each attempt's recorded verdict, its new verdict, and their comparison."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("recorded")
    table.add_column("now")
    table.add_column("", no_wrap=True)
    for pair in again:
        status = pair.fresh.evaluation.status
        table.add_row(
            str(pair.recorded.number),
            Text(brief(pair.recorded)),
            Text(brief(pair.fresh), style=STYLES.get(status, "red")),
            Text(pair.outcome, style="bold red" if pair.changed else "dim"),
        )
    return table


def _sum(again: Sequence[Again]) -> str:
    changed = sum(pair.changed for pair in again)
    left = sum(not pair.judged for pair in again)
    if not changed and not left:
        return f"all {len(again)} verdicts are as recorded"
    words = [f"{changed} of {len(again)} changed"] + ([f"{left} not judged here"] if left else [])
    return ", ".join(words)
