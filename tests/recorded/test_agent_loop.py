"""The recorded loop of a coding agent is a run as every other, and its session says how it came about."""

import json

from recorded import agent_loop
from typer.testing import CliRunner

from agent import resources
from agent.api import Run
from agent.cli.app import app


def test_it_opens_in_show() -> None:
    shown = CliRunner().invoke(app, ["show", f"recorded/{agent_loop.NAME}"])
    assert shown.exit_code == 0, shown.output
    assert "attempt 2 is verified" in shown.output


def test_the_session_goes_from_the_problem_to_the_run() -> None:
    folder = resources.folder("recorded") / agent_loop.NAME
    lines = (folder / agent_loop.SESSION).read_text(encoding="utf-8").splitlines()
    session = [json.loads(line) for line in lines]
    assert [one["tool"] for one in session] == [
        "describe", "judge", "judge", "submit", "submit", "submit", "compare",
    ]  # fmt: skip
    run = Run.open(f"recorded/{agent_loop.NAME}")
    accepted = [attempt.evaluation.status == "verified" for attempt in run.attempts]
    assert accepted == [one["answer"]["new"][0]["accepted"] for one in session[4:6]] == [False, True]
    assert session[5]["answer"]["outcome"] == "verified"
    assert run.finished is not None
    assert run.finished.outcome == "verified"
