"""Runs whose answers are submitted one at a time, by a coding agent or a person.

Such a run uses a mailbox, so the loop keeps its transcript, budget and best.py as usual. `agent run --resume`
can continue the run. The run is active only while a submitted answer is judged.
"""

from contextlib import suppress
from pathlib import Path

from agent import config
from agent.api import solving
from agent.api.checks import Checks
from agent.api.choices import Choices
from agent.api.judge import Address, ExecutorName
from agent.api.listening import Progress, Relay, listener
from agent.api.runs import Run
from agent.errors import AwaitingAnswers, UsageError
from agent.providers.mailbox import Mailbox
from agent.records import Prompt

FOLDER = "submissions"
"""Folder name of the shared mailbox for submitted answers, within the folder of runs."""
_ENDED = ("verified", "no_kernel", "budget")


def begin(
    problem: Address, *, executor: ExecutorName | None = None, checks: Checks | None = None,
    rounds: int | None = None, runs_dir: Path | None = None, require: str = "", progress: Progress = None,
) -> Run:  # fmt: skip
    """Start a run on `problem` and stop at its first prompt. Raises as `solve` does."""
    checks = checks or Checks()
    runs_dir = runs_dir or config.load({}, offline=True).settings.runs_dir
    runs_dir.mkdir(parents=True, exist_ok=True)
    flags: dict[str, object] = {
        "provider": f"mailbox:{runs_dir / FOLDER}", "executor": executor, "rounds": rounds,
        "runs_dir": runs_dir, "search": "line", "parallel": 1, **checks.flags(),
    }  # fmt: skip
    settings = config.load(flags).settings
    heard = _Begun(listener(progress))
    with suppress(AwaitingAnswers):
        return solving.begin(problem, settings, checks, Choices(require=require, no_wait=True), heard)
    return Run.open(heard.run, runs_dir=runs_dir)


def hand_in(run: Run, answer: str, *, progress: Progress = None) -> Run:
    """Answer the run's open prompt and continue until the next prompt or the end of the run.

    `answer` is a Python file with ModelNew, or a text that holds one in a code block. An earlier answer whose
    judging was cancelled is judged first. Raises UsageError if the run has ended or uses another provider;
    otherwise raises as `resume` does.
    """
    box = _mailbox(run)
    if not box.unanswered(run.id):
        run = _gone_on(run, progress)
    if run.finished is not None and run.finished.outcome in _ENDED:
        raise UsageError(f"run {run.id} has ended: {run.finished.reason}; begin another one")
    names = box.unanswered(run.id)
    if not names:
        raise UsageError(f"run {run.id} asks nothing at the moment; go on with: agent run --resume {run.id}")
    box.answer(names[0], answer)
    return _gone_on(run, progress)


def question(run: Run) -> Prompt | None:
    """Return the run's open prompt, or None if there is none."""
    asked = run.log.rounds[-1] if run.log.rounds else None
    return asked.prompt if asked is not None and asked.completion is None else None


def _gone_on(run: Run, progress: Progress) -> Run:
    """Resume the run until an answer is missing, and return it."""
    flags: dict[str, object] = {
        "provider": f"mailbox:{run.path.parent / FOLDER}", "runs_dir": run.path.parent,
    }  # fmt: skip
    with suppress(AwaitingAnswers):
        return solving.resume(run.id, flags=flags, choices=Choices(no_wait=True), progress=progress).reload()
    return run.reload()


def _mailbox(run: Run) -> Mailbox:
    folder = run.path.parent / FOLDER
    kind, _, given = run.folder.info.settings.provider.partition(":")
    if kind != "mailbox" or Path(given).resolve() != folder.resolve():
        raise UsageError(f"run {run.id} takes its answers from {run.folder.info.settings.provider}")
    return Mailbox(str(folder), wait=False, say=lambda text: None)


class _Begun(Relay):
    """Records the id of the run that starts."""

    run = ""

    def began(self, run: str) -> None:
        self.run = run
        super().began(run)
