"""`agent replay RUN`: judges the stored candidates again and says which verdicts changed."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from agent import config, store
from agent.cli import console, judging
from agent.cli.verdicts import brief
from agent.errors import UsageError
from agent.records import SCHEMA_VERSION, Attempt


class Again(NamedTuple):
    """One attempt as recorded and as judged now."""

    recorded: Attempt
    fresh: Attempt

    @property
    def changed(self) -> bool:
        return self.recorded.evaluation.status is not self.fresh.evaluation.status


def replay(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Path, id, unique prefix or recorded/NAME.")],
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
    """Judge the candidates of a run again, by what it asked for; exit 1 when a verdict differs."""
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
        raise UsageError(f"run {found.address} holds no judged candidate; see agent show {found.address}")
    problem = log.started.problem
    again = []
    with console.live("preparing") as live:
        asked = found.info.settings.options
        requests = judging.requests(
            str(asked.get("require", "")),
            backward=asked.get("backward") is True,
            compile_safe=asked.get("compile_safe") is True,
        )
        judge = judging.executor(settings, problem, live, quick=quick, requests=requests)
        judging.admit(judge, problem, anyway=True)
        for attempt in log.attempts:
            console.say(f"judging attempt {attempt.number} of {len(log.attempts)} afresh")
            evaluation = judge.evaluate(problem, attempt.candidate)
            again.append(Again(attempt, attempt.model_copy(update={"evaluation": evaluation})))
    _report(found.address, again, json)
    raise typer.Exit(1 if any(pair.changed for pair in again) else 0)


def _report(address: str, again: Sequence[Again], json: bool) -> None:
    changed = [pair for pair in again if pair.changed]
    if json:
        attempts = [
            {"number": pair.recorded.number, "changed": pair.changed,
             "recorded": pair.recorded.evaluation, "fresh": pair.fresh.evaluation}
            for pair in again
        ]  # fmt: skip
        console.emit_json({"schema_version": SCHEMA_VERSION, "run": address, "attempts": attempts})
        return
    for pair in again:
        was = "CHANGED, recorded was " + brief(pair.recorded) if pair.changed else "as recorded"
        text = Text(f"attempt {pair.recorded.number}  {brief(pair.fresh)}  ({was})")
        headline = pair.fresh.evaluation.headline
        if headline:
            text.append(f"\n    {headline.kind}: {console.line(headline.message)}")
        console.show(text)
    count = len(again)
    same = f"all {count} verdicts are as recorded" if not changed else f"{len(changed)} of {count} changed"
    console.say(f"{address}: {same}")
