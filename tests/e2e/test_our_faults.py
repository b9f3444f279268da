"""Parts of ours that are broken on purpose: no candidate is blamed, and the command ends with exit 3."""

import json
import os
from pathlib import Path

import pytest
from e2e.commands import agent, shown

from agent.executors.local import JUDGE_PROCESS
from agent.harness.messages.oracle_client import ORACLE

BREAK = """
import sys

if "{process}" in sys.orig_argv:
    {patch}
"""
RAISES = """import {module} as broken
    assert broken.{name}
    broken.{name} = lambda *given, **named: {{}}['broken on purpose']"""
DIES = """import {module} as broken, os
    assert broken.{name}
    broken.{name} = lambda *given: os._exit(7)"""
PLAYER = """import agent.harness.integrity.replay_check as own, pathlib, tempfile
    text = own._PLAYER[0].read_text()
    assert {old!r} in text
    copy = pathlib.Path(tempfile.mkdtemp(), "player.py")
    copy.write_text(text.replace({old!r}, {new!r}))
    own._PLAYER = (copy, *own._PLAYER[1:])"""
PARTS = {
    "the judge raises": (JUDGE_PROCESS, RAISES.format(module="agent.screen", name="check")),
    "the judge dies": (JUDGE_PROCESS, DIES.format(module="agent.screen", name="check")),
    "the oracle raises": (
        ORACLE,
        RAISES.format(module="agent.harness.truth.tolerance", name="Expected.compare"),
    ),
    "the oracle dies": (ORACLE, DIES.format(module="agent.harness.truth.tolerance", name="Expected.compare")),
    "the reader of a record raises": (
        JUDGE_PROCESS,
        RAISES.format(module="agent.emulator.replay.program", name="_Reader._on_launch"),
    ),
    "the player raises": (
        JUDGE_PROCESS,
        PLAYER.format(
            old="def do_play(self, command: ",
            new="def do_play(self, *_):\n        {}['broken on purpose']\n\n    def do(self, command: ",
        ),
    ),
    "the player dies": (JUDGE_PROCESS, PLAYER.format(old="Player()", new="os._exit(7)")),
    "the player answers another thing": (
        JUDGE_PROCESS,
        PLAYER.format(old="data = json.dumps(answer)", new="data = json.dumps({'played': 1})"),
    ),
}


def broken(folder: Path, part: str) -> dict[str, str]:
    """The environment in which a process of the agent's is broken, as `PARTS` says."""
    process, patch = PARTS[part]
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(BREAK.format(process=process, patch=patch))
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_ours_that_fails_is_exit_3_and_no_verdict(part: str, tmp_path: Path) -> None:
    done = agent(
        "eval", "level1/group_norm", "recorded/group_norm:4", "--executor", "emulator", "--json", "-v",
        cwd=tmp_path, **broken(tmp_path / "broken", part),
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout == ""
    assert "a bug in kernelwright, not in the candidate" in done.stderr.splitlines()[-1]
    assert ("KeyError: 'broken on purpose'" in done.stderr) is ("raises" in part)
    assert ("Traceback" in done.stderr) is True


def test_a_run_stops_after_three_that_could_not_be_judged_and_resumes(tmp_path: Path) -> None:
    answers = tmp_path / "answers"
    run = ("run", "level1/group_norm", "--provider", "replay:recorded/group_norm", "--in-order")
    options = ("--executor", "emulator", "--rounds", "4")
    stopped = agent(*run, *options, cwd=tmp_path, **broken(answers, "the judge raises"))
    assert stopped.returncode == 3, stopped.stderr
    assert "agent run --resume" in stopped.stderr.splitlines()[-1]
    (folder,) = (tmp_path / "runs").iterdir()
    document = shown(folder.name, tmp_path)
    assert (document["outcome"], document["best"]) == ("failed", None)
    assert [len(entry["attempts"]) for entry in document["rounds"]] == [0, 0, 0]
    unjudged = [[event["number"] for event in entry["unjudged"]] for entry in document["rounds"]]
    assert unjudged == [[1], [2], []]
    assert "sitecustomize.py" in document["rounds"][0]["unjudged"][0]["details"]
    prompts = {json.dumps(entry["prompt"]["messages"]) for entry in document["rounds"]}
    assert len(prompts) == 1, "something was told of an attempt that nobody judged"
    told = agent("show", folder.name, cwd=tmp_path).stdout
    assert told.count("not judged") == 2
    resumed = agent("run", "--resume", folder.name, *options, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    document = shown(folder.name, tmp_path)
    statuses = [[made["evaluation"]["status"] for made in entry["attempts"]] for entry in document["rounds"]]
    assert statuses == [[], [], ["verified"]]
