"""Tests of a run whose best is confirmed during the search: files, output, and interruption."""

import json
import threading
from pathlib import Path

import pytest
from second_looks import PROBLEM, RACE, Answers, TwoLooks
from transcripts import SETTINGS
from typer.testing import CliRunner, Result

from agent.api.listening import Listener
from agent.api.session import Session
from agent.cli.app import app
from agent.errors import EnvironmentFault, Interrupted
from agent.loop import Terms
from agent.records import Candidate, Evaluation, Problem, RunFinished
from agent.store import Resume, Run, create

RUNS = Path("runs")
LONG_S = 60.0


class Heard(Listener):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    warn = say


def carried(run: Run, provider: Answers, executor: TwoLooks, rounds: int, *, again: bool = False) -> Heard:
    """Carry out the run until it ends or is stopped, and return the printed lines."""
    heard = Heard()
    stored = Resume(run.read()) if again else None
    with run.writer() as writer:
        terms = Terms(rounds=rounds, patience=9, gpu="H200")
        Session(run, PROBLEM, terms, writer, heard, stored).solve(provider, executor)
    return heard


def finished(run: Run) -> RunFinished:
    end = run.read().finished
    assert end is not None
    return end


def agent(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def flat(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


@pytest.fixture
def run() -> Run:
    return create(RUNS, SETTINGS.model_copy(update={"executor": "cuda"}))


def test_a_confirmed_best_is_told_and_written(run: Run) -> None:
    heard = carried(run, Answers(2.0), TwoLooks(), 1)
    assert any("attempt 1 verified (GPU, not confirmed, " in line for line in heard.lines)
    assert any(line.startswith("attempt 1 is confirmed by a second look") for line in heard.lines)
    assert ", confirmed by a second look" in (run.path / "best.py").read_text()
    assert (finished(run).outcome, finished(run).best) == ("verified", 1)
    shown = flat(agent("show", run.id))
    assert "second look at attempt 1: confirmed, verified (GPU, " in shown
    assert "not confirmed" not in shown


def test_a_best_that_is_withdrawn_gives_way_to_the_one_before(run: Run) -> None:
    heard = carried(run, Answers(4.0, 1.0), TwoLooks(refuses=(1.0,)), 2)
    (said,) = [line for line in heard.lines if "withdrawn" in line]
    assert said == (
        f"attempt 2 is withdrawn, a second look refused it: {RACE.kind}: {RACE.message}; "
        "the best is attempt 1 again"
    )
    best = (run.path / "best.py").read_text()
    assert "ms = 4.0" in best
    assert ", confirmed by a second look" in best
    assert (finished(run).outcome, finished(run).best) == ("verified", 1)
    shown = flat(agent("show", run.id))
    assert "attempt 2 (model, from 1) runtime_error, withdrawn by its second look" in shown
    followed = flat(agent("show", run.id, "--follow"))
    assert "second look at attempt 2: withdrawn, runtime_error" in followed
    assert f"{RACE.kind}: {RACE.message}" in followed
    in_full = flat(agent("show", run.id, "--round", "2"))
    assert "second look at attempt 2: withdrawn" in in_full
    assert "not confirmed by a second look" in in_full


def test_a_run_that_keeps_nothing_keeps_no_file(run: Run) -> None:
    heard = carried(run, Answers(1.0), TwoLooks(refuses=(1.0,)), 1)
    assert any("nothing else is verified" in line for line in heard.lines)
    assert not (run.path / "best.py").exists()
    assert (finished(run).outcome, finished(run).best) == ("no_kernel", None)
    document = json.loads(agent("show", run.id, "--json").stdout)
    (attempt,) = document["rounds"][0]["attempts"]
    assert attempt["evaluation"]["scope"]["confirmed"] is False
    assert (attempt["first"]["status"], attempt["evaluation"]["status"]) == ("verified", "runtime_error")
    listed = json.loads(agent("runs", "--json").stdout)
    assert [row["best"] for row in listed["runs"]] == [None]


def test_ctrl_c_in_a_second_look_leaves_a_run_that_confirms_when_it_goes_on(run: Run) -> None:
    begun, over = threading.Event(), threading.Event()

    class Stuck(TwoLooks):
        def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
            begun.set()
            over.wait(LONG_S)
            return super().confirm(problem, candidate, evaluation)

    def while_writing(number: int) -> None:
        if number == 2:
            assert begun.wait(LONG_S)
            raise KeyboardInterrupt

    try:
        with pytest.raises(Interrupted):
            carried(run, Answers(2.0, 4.0, while_writing=while_writing), Stuck(), 2)
    finally:
        over.set()
    assert (finished(run).outcome, finished(run).best) == ("interrupted", 1)
    assert "not confirmed by a second look" in (run.path / "best.py").read_text()
    assert "not confirmed by a second look" in flat(agent("show", run.id))
    assert "not confirmed" in flat(agent("runs"))

    judge = TwoLooks()
    carried(run, Answers(2.0, 4.0, known=1), judge, 2, again=True)
    assert judge.looked == [2.0]
    assert (finished(run).outcome, finished(run).best) == ("verified", 1)
    assert ", confirmed by a second look" in (run.path / "best.py").read_text()
    assert "not confirmed" not in flat(agent("runs"))


def test_a_best_that_cannot_be_confirmed_leaves_a_run_to_be_resumed(run: Run) -> None:
    judge = TwoLooks(breaks={2.0: 2})
    with pytest.raises(EnvironmentFault, match=f"go on with: agent run --resume {run.id}"):
        carried(run, Answers(2.0), judge, 1)
    assert (finished(run).outcome, finished(run).best) == ("failed", 1)
    shown = flat(agent("show", run.id))
    assert "second look at attempt 1: could not be made" in shown
    assert "the GPU is gone" in shown
    in_full = flat(agent("show", run.id, "--round", "1"))
    assert "Traceback of the judge" in in_full
    assert "could not be made" in flat(agent("show", run.id, "--follow"))
    carried(run, Answers(known=1), judge, 1, again=True)
    assert (finished(run).outcome, finished(run).best) == ("verified", 1)


def test_the_page_of_a_run_says_what_is_withdrawn_and_what_is_unconfirmed(run: Run) -> None:
    carried(run, Answers(4.0, 1.0), TwoLooks(refuses=(1.0,)), 2)
    assert agent("view", run.id, "--export", "withdrawn.html").exit_code == 0
    page = Path("withdrawn.html").read_text()
    assert "runtime error, withdrawn by its second look" in page
    assert "a second one, by other means, refused it, and it was withdrawn" in page

    open_run = create(RUNS, SETTINGS.model_copy(update={"executor": "cuda"}))
    with pytest.raises(EnvironmentFault):
        carried(open_run, Answers(2.0), TwoLooks(breaks={2.0: 2}), 1)
    assert agent("view", open_run.id, "--export", "open.html").exit_code == 0
    page = Path("open.html").read_text()
    assert "verified (GPU, not confirmed)" in page
    assert "a second one, by other means, has not confirmed that" in page
    assert "A second look could not be made: the GPU is gone" in page
