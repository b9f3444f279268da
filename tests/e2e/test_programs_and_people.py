"""Runs answered by a program and by whoever reads a folder, stopped and resumed."""

import json
import shlex
import sys
from pathlib import Path

from e2e.commands import ANSWERS, agent, shown

PROBLEM = ("level1/group_norm", "--executor", "emulator", "--quick")


def test_a_program_answers_and_a_run_that_it_failed_goes_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import pathlib, sys\n"
        "assert 'native_group_norm' in sys.stdin.read()\n"
        "if not pathlib.Path('ready').exists(): sys.exit('not signed in')\n"
        f"print(pathlib.Path({str(ANSWERS / '4.md')!r}).read_text())\n"
    )
    provider = f"command:{sys.executable} {program}"
    failed = agent("run", *PROBLEM, "--provider", provider, cwd=tmp_path)
    assert failed.returncode == 4, failed.stderr
    assert "exit code 1: not signed in" in failed.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    unasked = agent("run", "--resume", folder.name, cwd=tmp_path)
    assert unasked.returncode == 2
    assert f"--provider {shlex.quote(provider)}" in unasked.stderr
    (tmp_path / "ready").touch()
    done = agent("run", "--resume", folder.name, "--json", cwd=tmp_path, AGENT_PROVIDER=provider)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "verified"
    (entry,) = shown(folder.name, tmp_path)["rounds"]
    assert (entry["completion"]["provider"], entry["completion"]["model"]) == ("command", None)


def test_a_mailbox_run_stops_for_each_answer_and_goes_on_elsewhere(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    waiting = agent("run", *PROBLEM, "--provider", "mailbox:box", "--no-wait", cwd=here)
    assert waiting.returncode == 75, waiting.stderr
    (first,) = (here / "box").glob("*.prompt.md")
    answer_to(first).write_text((ANSWERS / "2.md").read_text())
    (folder,) = (here / "runs").iterdir()
    again = agent("run", "--resume", folder.name, "--no-wait", cwd=here)
    assert again.returncode == 75, again.stderr
    assert f"go on with: agent run --resume {folder.name}" in again.stderr
    here.rename(there)
    (there / "box").rename(there / "box on another machine")
    (second,) = set((there / "box on another machine").glob("*.prompt.md")) - {relocated(first, there)}
    answer_to(second).write_text((ANSWERS / "4.md").read_text())
    moved = ("--provider", "mailbox:box on another machine")
    done = agent("run", "--resume", folder.name, *moved, "--json", cwd=there)
    assert done.returncode == 0, done.stderr
    rounds = shown(folder.name, there)["rounds"]
    statuses = [[attempt["evaluation"]["status"] for attempt in entry["attempts"]] for entry in rounds]
    assert statuses == [["incorrect"], ["verified"]]
    assert len(list((there / "box on another machine").iterdir())) == 4


def answer_to(prompt: Path) -> Path:
    return prompt.with_name(prompt.name.replace(".prompt.", ".answer."))


def relocated(prompt: Path, there: Path) -> Path:
    return there / "box on another machine" / prompt.name


def test_no_wait_is_for_mailboxes(tmp_path: Path) -> None:
    refused = agent("run", *PROBLEM, "--provider", "catalogue", "--no-wait", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--no-wait needs --provider mailbox:DIR" in refused.stderr


def test_a_mailbox_run_begins_where_no_gpu_is_and_is_judged_elsewhere(tmp_path: Path) -> None:
    away = {"PATH": str(tmp_path)}
    gpu = ("level1/group_norm", "--quick", "--executor", "cuda", "--gpu", "H100")
    waiting = agent("run", *gpu, "--provider", "mailbox:box", "--no-wait", cwd=tmp_path, **away)
    assert waiting.returncode == 75, waiting.stderr
    (prompt,) = (tmp_path / "box").glob("*.prompt.md")
    assert "H100" in prompt.read_text()
    answer_to(prompt).write_text((ANSWERS / "4.md").read_text())
    (folder,) = (tmp_path / "runs").iterdir()
    taken = agent("run", "--resume", folder.name, "--no-wait", cwd=tmp_path, **away)
    assert taken.returncode == 75, taken.stderr
    assert "waits to be judged on a machine with an NVIDIA GPU" in taken.stderr
    judged = agent("run", "--resume", folder.name, "--executor", "emulator", cwd=tmp_path)
    assert judged.returncode == 0, judged.stderr
    assert len(list((tmp_path / "box").iterdir())) == 2


def test_a_gpu_that_is_not_here_is_waited_for_by_nobody_else(tmp_path: Path) -> None:
    gpu = ("level1/group_norm", "--executor", "cuda", "--provider", "catalogue")
    refused = agent("run", *gpu, cwd=tmp_path, PATH=str(tmp_path))
    assert refused.returncode == 3
    assert "no NVIDIA GPU answers" in refused.stderr
