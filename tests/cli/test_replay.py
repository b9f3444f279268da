"""Tests of `agent replay`: the table of old and new verdicts, and the exit codes."""

import json
from pathlib import Path

import pytest
from transcripts import SETTINGS, STARTED, attempt, evaluation, measured
from typer.testing import CliRunner, Result
from verdicts import OneLook

from agent.api import judge
from agent.cli.app import app
from agent.records import Candidate, Evaluated, Evaluation, Finding, Problem, Status
from agent.store import Run, create

RUNS = Path("runs")


class Judge(OneLook):
    """Executor that returns prepared verdicts in order."""

    name = "emulator"

    def __init__(self, verdicts: list[Evaluation]) -> None:
        self._verdicts = verdicts

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        return self._verdicts.pop(0)


def unsupported() -> Evaluation:
    finding = Finding(kind="no-gpu-feature", message="The candidate wants \x1b[31mtensor cores\x1b[0m.")
    return evaluation(Status.UNSUPPORTED).model_copy(update={"findings": (finding,)})


def replayed(
    recorded: list[Evaluation], fresh: list[Evaluation], monkeypatch: pytest.MonkeyPatch, *options: str
) -> Result:
    run = create(RUNS, SETTINGS)
    with run.writer() as writer:
        writer.append(STARTED)
        for number, verdict in enumerate(recorded, 1):
            writer.append(Evaluated(round=number, attempt=attempt(number, verdict)))
    monkeypatch.setattr(judge, "local_executor", lambda *given, **more: Judge(list(fresh)))
    monkeypatch.setattr(judge, "admitted", lambda *given, **more: None)
    return CliRunner().invoke(app, ["replay", run.id, "--executor", "emulator", *options])


WRONG, RIGHT = evaluation(Status.INCORRECT), evaluation(Status.VERIFIED)


def test_the_same_verdicts_are_exit_0(monkeypatch: pytest.MonkeyPatch) -> None:
    result = replayed([WRONG, RIGHT], [WRONG, RIGHT], monkeypatch)
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows[0] == ["1", "incorrect", "incorrect", "same"]
    assert "wrong-statistics" not in result.stdout
    assert "all 2 verdicts are as recorded" in result.stderr


def test_a_changed_verdict_is_exit_1_and_has_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    result = replayed([WRONG, RIGHT, RIGHT], [RIGHT, WRONG, measured()], monkeypatch)
    assert result.exit_code == 1
    assert result.stdout.count("CHANGED") == 2
    out = " ".join(result.stdout.split())
    assert "1 incorrect verified (emulator, shrunken) CHANGED" in out
    assert "2 verified (emulator, shrunken) incorrect CHANGED" in out
    assert "3 verified (emulator, shrunken) verified (GPU, 2.00x) same" in out
    assert "attempt 2 wrong-statistics: The variance is taken over the whole batch." in out
    assert "2 of 3 changed" in result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_what_cannot_be_judged_here_is_exit_5_and_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    result = replayed([WRONG, RIGHT], [WRONG, unsupported()], monkeypatch)
    assert result.exit_code == 5
    assert "not judged" in result.stdout
    assert "attempt 2 no-gpu-feature: The candidate wants tensor cores." in " ".join(result.stdout.split())
    assert "0 of 2 changed, 1 not judged here" in result.stderr
    changed = replayed([WRONG, RIGHT], [RIGHT, unsupported()], monkeypatch)
    assert changed.exit_code == 1


def test_unsupported_then_and_now_is_as_recorded_and_judged_now_is_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert replayed([unsupported()], [unsupported()], monkeypatch).exit_code == 0
    assert replayed([unsupported()], [RIGHT], monkeypatch).exit_code == 1


def test_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    result = replayed([WRONG, RIGHT], [RIGHT, unsupported()], monkeypatch, "--json")
    attempts = json.loads(result.stdout)["attempts"]
    assert [(made["changed"], made["judged"]) for made in attempts] == [(True, True), (False, False)]
    assert attempts[0]["recorded"]["status"] == "incorrect"
    assert attempts[0]["fresh"]["scope"]["shapes"] == "shrunken"


def test_a_run_without_candidates_is_exit_2() -> None:
    run: Run = create(RUNS, SETTINGS)
    result = CliRunner().invoke(app, ["replay", run.id])
    assert result.exit_code == 2
    assert "has no judged candidate" in result.stderr
