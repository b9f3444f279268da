"""Tests of `agent show` with intact and damaged transcripts."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from transcripts import LONG, SETTINGS, attempt, evaluation
from typer.testing import CliRunner, Result
from viewer.runs import beam_run

from agent.cli.app import app
from agent.records import Axis, Evaluated, MismatchMap
from agent.store import Run, create

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
        "attempt 1 (model) incorrect 0.5 s │ wrong-statistics: The variance is taken",
        "took 6.0 s answering, 1.5 s judging",
    ):  # fmt: skip
        assert said in out
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stderr == ""


def test_show_hangs_a_mend_under_what_it_mends(killed: Run) -> None:
    lines = agent("show", killed.id).stdout.splitlines()
    parent = next(line for line in lines if "attempt 1 (model)" in line)
    mend = next(line for line in lines if "attempt 2 (mend of 1)" in line)
    assert mend.endswith("verified (GPU, 2.00x)  +1 -1  1.0 s  best")
    assert mend.index("attempt") > parent.index("attempt")
    assert any("asked again after 2.0 s: 429 slow down" in line for line in lines)
    assert any("round 2" in line and "no answer received" in line for line in lines)
    assert any("m-[red]1" in line for line in lines)


def test_show_draws_a_search_as_a_tree_in_80_columns(tmp_path: Path) -> None:
    run = beam_run(tmp_path)
    lines = agent("show", str(run.path)).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    place = {
        name: next((row, line.index(name)) for row, line in enumerate(lines) if name in line)
        for name in ("round 2, generate", "round 5, repair after round 2", "attempt 5", "round 3, generate",
                     "round 6, optimise after round 4", "round 8, optimise after round 6")
    }  # fmt: skip
    assert [row for row, _ in place.values()] == sorted(row for row, _ in place.values())
    columns = [column for _, column in place.values()]
    assert columns[0] == columns[3] < columns[1] == columns[4] < columns[2] == columns[5]
    assert any(
        "attempt 6 (model, from 4)  verified (GPU, 1.37x)" in line and "best" in line for line in lines
    )
    assert any("as few kernels as there can be" in line for line in lines)
    assert any(line.split() == ["search", "beam"] for line in lines)


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


def test_a_round_shows_where_an_output_is_wrong() -> None:
    axes = (Axis(name="dim 0", size=8), Axis(name="dim 1", size=16))
    where = MismatchMap(shape=(8, 16), axes=axes, cells=("0004", "0099"), wrong=40, total=128)
    judged = attempt(1, evaluation().model_copy(update={"mismatch": where}))
    run = create(RUNS, SETTINGS)
    with run.writer() as writer:
        writer.append(Evaluated(round=1, attempt=judged))
    out = agent("show", run.id, "--round", "1").stdout
    assert "dim 0 (0..7) down and dim 1 (0..15) across" in " ".join(out.split())
    assert "\n    ...4\n    ..##\n" in out


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


def test_a_prompt_as_it_was_sent(finished: Run) -> None:
    result = agent("show", finished.id, "--prompt", "2")
    assert result.exit_code == 0
    assert result.stdout == f"--- user\nround 2 after 1 attempts\n{LONG}\n"
    document = json.loads(agent("show", finished.id, "--prompt", "2", "--json").stdout)
    assert document["prompt"]["messages"][0]["content"] == f"round 2 after 1 attempts\n{LONG}"
    stored = finished.read().rounds[1].prompt
    assert stored is not None
    assert document["prompt"]["id"] == stored.id
    missing = agent("show", finished.id, "--prompt", "9")
    assert (missing.exit_code, missing.stdout) == (2, "")


def test_two_attempts_are_compared(killed: Run) -> None:
    result = agent("show", killed.id, "--diff", "1", "2")
    assert result.stdout.splitlines() == [
        f"--- {killed.id}:1  build_error",
        f"+++ {killed.id}:2  verified (GPU, 2.00x)",
        "@@ -1,2 +1,2 @@",
        "-# 1",
        "+# 2",
        f" {LONG}".rstrip("\n"),
    ]
    document = json.loads(agent("show", killed.id, "--diff", "2", "1", "--json").stdout)
    assert (document["from"], document["to"], document["change"]) == (2, 1, {"added": 1, "removed": 1})
    same = agent("show", killed.id, "--diff", "1", "1").stdout.splitlines()
    assert len(same) == 2
    missing = agent("show", killed.id, "--diff", "1", "7")
    assert missing.exit_code == 2
    assert "has no attempt 7; it has: 1, 2" in missing.stderr


def test_a_terminal_of_80_columns_is_enough_and_gets_colours(killed: Run) -> None:
    environment = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    shown = CliRunner().invoke(app, ["show", killed.id], env=environment).stdout
    assert "\x1b[31mbuild_error\x1b[0m" in shown
    assert "\x1b[32mverified (GPU, 2.00x)\x1b[0m" in shown
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown.splitlines()) <= 80


def test_a_diff_is_coloured_on_a_terminal_and_not_with_no_color(
    killed: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["show", killed.id, "--diff", "1", "2"]
    environment = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    coloured = CliRunner().invoke(app, arguments, env=environment).stdout
    assert "\x1b[31m-# 1\x1b[0m" in coloured
    assert "\x1b[32m+# 2\x1b[0m" in coloured
    plain = CliRunner().invoke(app, arguments, env=environment | {"NO_COLOR": "1"}).stdout
    assert "\x1b[3" not in plain
    assert "-# 1" in plain


def test_the_diff_is_one_that_patch_takes(finished: Run, tmp_path: Path) -> None:
    sources = [attempt.candidate.source for attempt in finished.read().attempts]
    (tmp_path / "a.py").write_text(sources[0])
    (tmp_path / "the.diff").write_text(agent("show", finished.id, "--diff", "1", "3").stdout)
    command = ["patch", "--quiet", str(tmp_path / "a.py"), str(tmp_path / "the.diff")]
    if not shutil.which("patch"):
        pytest.skip("this system has no patch")
    subprocess.run(command, check=True)
    assert (tmp_path / "a.py").read_text() == sources[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--round", "1", "--prompt", "1"], "--round and --prompt cannot be combined"),
        (["--diff", "1", "2", "--follow"], "--diff and --follow cannot be combined"),
        (["--follow", "--json"], "give one of them"),
    ],
)
def test_what_does_not_fit_together_is_exit_2(finished: Run, arguments: list[str], words: str) -> None:
    result = agent("show", finished.id, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr


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
