"""Tests of `agent show` and `agent runs` for a search with several lines."""

import json
import re
from pathlib import Path

import pytest
from search.searching import Judge, Model, terms
from second_looks import PROBLEM
from transcripts import SETTINGS
from typer.testing import CliRunner

from agent.api.listening import Listener
from agent.api.session import Session
from agent.cli.app import app
from agent.search.budget import Budget, Limits, Price, Tariff
from agent.store import Run, create


def agent(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def carried(rounds: int) -> Run:
    run = create(Path("runs"), SETTINGS.model_copy(update={"executor": "cuda"}))
    tariff = Tariff(answer_tokens=1_000, prices={"m": Price(input=1, output=10)})
    budget = Budget(Limits(cost_usd=5.0), parallel=1, tariff=tariff)
    with run.writer() as writer:
        wanted = terms("beam", rounds=rounds, parallel=1)
        Session(run, PROBLEM, wanted, writer, Listener(), None, budget).solve(Model(), Judge())
    return run


@pytest.fixture
def run() -> Run:
    return carried(6)


def test_the_rounds_that_a_round_goes_on_from_are_shown(run: Run) -> None:
    moves = [entry.move for entry in run.read().rounds]
    assert [move.after for move in moves if move][:4] == [None] * 4
    shown = agent("show", run.id)
    assert "round 1, generate" in shown
    assert "round 2, generate" in shown
    for number, move in enumerate(moves, 1):
        if move and move.after is not None:
            assert re.search(rf"round {number}, \w+ after round {move.after}, ", shown)
    document = json.loads(agent("show", run.id, "--json"))
    assert [entry["move"]["after"] for entry in document["rounds"]] == [move.after for move in moves if move]


def test_what_runs_took_is_summed(run: Run) -> None:
    other = carried(4)
    listed = json.loads(agent("runs", "--json"))
    costs = [one.read().finished for one in (run, other)]
    assert all(end and end.spent and end.spent.cost_usd for end in costs)
    whole = sum(end.spent.cost_usd or 0.0 for end in costs if end and end.spent)
    assert listed["spent"]["cost_usd"] == pytest.approx(whole)
    assert listed["spent"]["tokens"] == 150 * 10
