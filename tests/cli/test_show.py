"""`agent show` over transcripts, whole and damaged."""

import json
from pathlib import Path

from transcripts import (
    LONG,
)
from typer.testing import CliRunner, Result

from agent.cli.app import app
from agent.store import Run

RUNS = Path("runs")


def agent(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


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
