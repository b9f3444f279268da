"""`agent runs` and `agent show` over transcripts, whole and damaged."""

import json
from pathlib import Path

import pytest
from transcripts import (
    LONG,
    SETTINGS,
    STARTED,
    Answers,
    Judge,
    attempt,
    completion,
    converse,
    evaluation,
    measured,
    prompt,
)
from typer.testing import CliRunner, Result

from agent.cli.app import app
from agent.records import Completed, Evaluated, Prompted, RetryScheduled, Status
from agent.store import Run, create, write_best

RUNS = Path("runs")


def agent(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def finished() -> Run:
    run = create(RUNS, SETTINGS)
    with run.writer() as writer:
        converse(Answers(), Judge(), writer)
    write_best(run, run.read().attempts[-1], STARTED.problem)
    return run


@pytest.fixture
def killed() -> Run:
    """Stopped in its second round; an attempt of the first has a mend that was measured."""
    run = create(RUNS, SETTINGS.model_copy(update={"provider": "openai_compat", "model": "m-[red]1"}))
    first = attempt(1, evaluation(Status.BUILD_ERROR))
    with run.writer() as writer:
        writer.append(STARTED)
        writer.append(
            Prompted(round=1, prompt=prompt("[bold]a[/bold] \x1b[31mred\x1b[0m\n" + "long line " * 30))
        )
        writer.append(RetryScheduled(reason="429 slow down", wait_seconds=2.0, tries=1))
        writer.append(
            Completed(round=1, prompt_id="p", completion=completion("[/nope] \ud800", "thinking " * 9))
        )
        writer.append(Evaluated(round=1, attempt=first, seconds=65.0))
        mended = attempt(2, measured(), origin="mend", parent=first.candidate.id)
        writer.append(Evaluated(round=1, attempt=mended, seconds=1.0))
        writer.append(Prompted(round=2, prompt=prompt("b")))
    return run


def test_runs_lists_newest_first_with_scope(finished: Run, killed: Run) -> None:
    result = agent("runs")
    assert result.exit_code == 0
    out = " ".join(result.stdout.split())
    assert out.index(killed.id) < out.index(finished.id)
    assert "verified (GPU, 2.00x)" in " ".join(out.replace("level1/softmax, openai_compat", "").split())
    assert "finished" in out
    assert "2/6" in out
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "\x1b" not in result.stdout


def test_runs_as_json(finished: Run, killed: Run) -> None:
    runs = json.loads(agent("runs", "--json").stdout)["runs"]
    assert [run["id"] for run in runs] == [killed.id, finished.id]
    assert runs[0]["state"] == "killed"
    assert runs[0]["best"]["attempt"] == 2
    assert runs[0]["best"]["speedup"] == 2.0
    assert runs[0]["best"]["scope"]["executor"] == "cuda"
    assert runs[1]["rounds"] == {"begun": 4, "planned": 6}
    assert runs[1]["best"]["scope"]["shapes"] == "shrunken"
    assert runs[1]["outcome"] == "verified"


def test_no_runs_is_no_error(tmp_path: Path) -> None:
    result = agent("runs")
    assert result.exit_code == 0
    assert "no runs in runs" in result.stdout
    assert json.loads(agent("runs", "--json", "--runs-dir", str(tmp_path)).stdout)["runs"] == []


def test_a_damaged_run_is_listed_as_such(finished: Run) -> None:
    (finished.path / "run.toml").write_text("?")
    assert "damaged" in agent("runs").stdout
    assert json.loads(agent("runs", "--json").stdout)["runs"][0]["state"] == "damaged"
    shown = agent("show", finished.id)
    assert shown.exit_code == 0
    assert "run.toml is damaged" in shown.stderr
    assert "attempt 3" in shown.stdout


def test_show_says_what_was_asked_and_each_verdict(finished: Run) -> None:
    result = agent("show", finished.id[:20])
    out = " ".join(result.stdout.split())
    assert result.exit_code == 0
    for said in (
        "problem level1/softmax", "provider scripted", "executor emulator", "skipped: timing: no GPU",
        "finished: verified after 4 rounds", "best.py", "round 2, repair", "verified (emulator, shrunken)",
        "best attempt 3, verified on CPU emulator, shrunken shapes (batch 112->16)",
        "no candidate The answer holds no code block.",
        "attempt 1 (model) incorrect wrong-statistics: The variance is taken",
    ):  # fmt: skip
        assert said in out
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr == ""


def test_show_hangs_a_mend_under_what_it_mends(killed: Run) -> None:
    lines = agent("show", killed.id).stdout.splitlines()
    parent = next(line for line in lines if "attempt 1 (model)" in line)
    mend = next(line for line in lines if "attempt 2 (mend)" in line)
    assert mend.index("attempt") > parent.index("attempt")
    assert any("asked again after 2.0 s: 429 slow down" in line for line in lines)
    assert any("round 2" in line and "no answer received" in line for line in lines)
    assert any("m-[red]1" in line for line in lines)


def test_show_one_round_in_full(killed: Run) -> None:
    result = agent("show", killed.id, "--round", "1")
    assert result.exit_code == 0
    for said in (
        "[bold]a[/bold] red", "long line " * 30, "[/nope] \ufffd", "error: wrong-statistics",
        "81 characters of reasoning; -v shows them",
        "at line 7, kernel norm, block (0, 0, 1): var = x.var()", "    got 2.0",
        "build: emulator-slim, 2.2 s", "unused variable 'n'", "2.00x against eager", "GPU, full shapes",
    ):  # fmt: skip
        assert said in result.stdout
    assert "thinking" not in result.stdout
    assert "thinking " * 9 in agent("show", killed.id, "--round", "1", "-v").stdout
    assert "\x1b" not in result.stdout


def test_show_a_round_that_is_not_there(finished: Run) -> None:
    result = agent("show", finished.id, "--round", "9")
    assert result.exit_code == 2
    assert "has no round 9; it has rounds 1 to 4" in result.stderr


def test_show_as_json(killed: Run) -> None:
    result = agent("show", killed.id, "--json")
    document = json.loads(result.stdout)
    assert document["run"]["settings"]["model"] == "m-[red]1"
    assert (document["state"], document["outcome"], document["best"]) == ("killed", None, 2)
    first, second = document["rounds"]
    assert [made["evaluation"]["status"] for made in first["attempts"]] == ["build_error", "verified"]
    assert [made["speedup"] for made in first["attempts"]] == [None, 2.0]
    assert first["attempts"][0]["candidate"]["source"] == f"# 1\n{LONG}\n"
    assert first["completion"]["text"] == "[/nope] \ud800"
    assert (second["completion"], second["attempts"]) == (None, [])
    assert document["damage"] == []
    assert [
        entry["round"]
        for entry in json.loads(agent("show", killed.id, "--json", "--round", "2").stdout)["rounds"]
    ] == [2]


def test_damaged_lines_are_reported_and_the_rest_is_shown(finished: Run) -> None:
    events = finished.path / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join([lines[0], b"garbage\n", *lines[2:], b'{"kind": "eval']))
    result = agent("show", finished.id)
    assert result.exit_code == 0
    assert "warning: events.jsonl, line 2: not JSON" in result.stderr
    assert "in the middle of an event" in result.stderr
    assert "attempt 3" in result.stdout
    document = json.loads(agent("show", finished.id, "--json").stdout)
    assert (document["damage"][0]["line"], document["cut"]) == (2, True)


def test_an_unknown_run_is_exit_2_and_lists_those_there(finished: Run) -> None:
    result = agent("show", "nothing")
    assert result.exit_code == 2
    assert finished.id in result.stderr
    assert result.stdout == ""
