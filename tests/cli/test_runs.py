"""Tests of `agent runs`: filters, order, --verify and --prune, at 80 columns and as JSON."""

import json
import os
import time
from pathlib import Path

import pytest
from rich.cells import cell_len
from transcripts import SETTINGS, STARTED
from typer.testing import CliRunner, Result

from agent.cli.app import app
from agent.records import RunFinished
from agent.store import Run, create

RUNS = Path("runs")


def agent(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, ["runs", *arguments], env=environment)


def listed(*arguments: str) -> list[str]:
    return [run["id"] for run in json.loads(agent("--json", *arguments).stdout)["runs"]]


@pytest.fixture
def old() -> Run:
    """Return a failed run from 2001 without any round."""
    run = create(RUNS, SETTINGS.model_copy(update={"problem_name": "level2/matmul"}))
    with run.writer() as writer:
        writer.append(STARTED)
        writer.append(RunFinished(outcome="failed", best=None, reason="the endpoint is down"))
    manifest = run.path / "run.toml"
    year = manifest.read_text().split('created = "')[1][:4]
    manifest.write_text(manifest.read_text().replace(f'created = "{year}', 'created = "2001'))
    return run


def test_newest_first_with_scope_state_and_what_was_asked(finished: Run, killed: Run, old: Run) -> None:
    result = agent()
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[1::2]] == [killed.id, finished.id, old.id]
    assert lines[1].endswith("2/6  verified (GPU, 2.00x)")
    assert lines[2] == "  killed  level1/softmax, openai_compat, m-[red]1, 1:08"
    assert lines[3].endswith("4/6  verified (emulator, shrunken)")
    assert lines[4] == "  finished  level1/softmax, scripted, 7.5 s"
    assert lines[5].endswith("0/6  -")
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in result.stdout


def test_as_json(finished: Run, killed: Run) -> None:
    runs = json.loads(agent("--json").stdout)["runs"]
    assert [run["id"] for run in runs] == [killed.id, finished.id]
    assert runs[0]["state"] == "killed"
    assert runs[0]["best"]["attempt"] == 2
    assert runs[0]["best"]["speedup"] == 2.0
    assert runs[0]["best"]["scope"]["executor"] == "cuda"
    assert runs[0]["tokens"] == {"input": None, "output": None, "partial": True}
    assert runs[1]["rounds"] == {"begun": 4, "planned": 6}
    assert runs[1]["best"]["status"] == "verified"
    assert runs[1]["best"]["scope"]["shapes"] == "shrunken"
    assert (runs[1]["outcome"], runs[1]["reason"]) == ("verified", "verified after 4 rounds")


def test_the_options_choose_and_order(finished: Run, killed: Run, old: Run) -> None:
    assert listed("--problem", "SOFT") == [killed.id, finished.id]
    assert listed("--status", "killed", "--status", "failed") == [killed.id, old.id]
    assert listed("--status", "verified") == [killed.id, finished.id]
    assert listed("--provider", "m-[red]") == [killed.id]
    assert listed("--since", "1d") == [killed.id, finished.id]
    assert listed("--until", "2002-01-01") == [old.id]
    assert listed("--sort", "rounds") == [finished.id, killed.id, old.id]
    assert listed("--sort", "speedup")[0] == killed.id
    assert "group_norm" in listed("--status", "recorded")
    assert "match the filters" in agent("--problem", "nothing").stdout


def test_no_runs_is_no_error(tmp_path: Path) -> None:
    result = agent()
    assert result.exit_code == 0
    assert "no runs in runs; to see a recorded run: agent show recorded/group_norm" in result.stdout
    assert json.loads(agent("--json", "--runs-dir", str(tmp_path)).stdout)["runs"] == []
    assert not RUNS.exists()


def test_a_damaged_run_is_listed_as_such(finished: Run) -> None:
    (finished.path / "run.toml").write_text("?")
    assert "damaged" in agent().stdout
    assert json.loads(agent("--json").stdout)["runs"][0]["state"] == "damaged"


def test_wide_characters_take_two_columns() -> None:
    create(RUNS, SETTINGS.model_copy(update={"problem_name": "\u884c\u5217" * 60}))
    create(RUNS, SETTINGS).path.rename(RUNS / "\u884c")
    lines = agent().stdout.splitlines()
    assert max(map(cell_len, lines)) == 80
    assert len({cell_len(line[: line.index("0/6")]) for line in lines if "0/6" in line}) == 1


def test_names_from_outside_do_not_steer_the_terminal() -> None:
    create(
        RUNS,
        SETTINGS.model_copy(update={"problem_name": "\x1b[2J\u202egnp.exe", "model": "m\0\x07\x9b31m" * 90}),
    )
    create(RUNS, SETTINGS).path.rename(RUNS / "\x1b[31mred")
    for result in (agent(), agent(FORCE_COLOR="1", NO_COLOR="1")):
        for hostile in ("\x1b[31m", "\x1b[2J", "\u202e", "\0", "\x07", "\x9b"):
            assert hostile not in result.stdout
        assert "gnp.exe" in result.stdout
    assert max(map(len, agent().stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prune"], "--prune needs a filter"),
        (["--keep", "3"], "need --prune"),
        (["--dry-run"], "need --prune"),
        (["--verify", "--reindex"], "use only one of"),
        (["--status", "dead"], "choose from: running, finished"),
        (["--since", "then"], "is not a date"),
        (["--sort", "beauty"], "--sort"),
    ],
)
def test_what_does_not_fit_together_is_exit_2(finished: Run, arguments: list[str], words: str) -> None:
    result = agent(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert finished.path.is_dir()


def test_reindex_reads_what_was_changed_behind_its_back(finished: Run) -> None:
    events = finished.path / "events.jsonl"
    past = time.time() - 3600
    os.utime(events, (past, past))
    assert listed() == [finished.id]
    events.write_bytes(events.read_bytes().replace(b"verified after 4 rounds", b"verified after 5 rounds"))
    os.utime(events, (past, past))
    assert "after 4" in agent("--json").stdout
    assert "after 5" in agent("--json", "--reindex").stdout
    assert "after 5" in agent("--json").stdout


def test_verify_names_each_damaged_hash(finished: Run, killed: Run) -> None:
    result = agent("--verify")
    assert result.exit_code == 1
    assert "events.jsonl, line 4: answers prompt p, not the" in result.stdout
    assert "2 runs verified, 1 damaged" in result.stdout
    assert agent("--verify", "--status", "finished").exit_code == 0
    blob = sorted((finished.path / "blobs").iterdir())[0]
    blob.write_text("other")
    result = agent("--verify", "--json", "--status", "finished")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["runs"]) == (1, 1)
    assert document["faults"][0] == {
        "run": finished.id,
        "place": f"blobs/{blob.name}",
        "reason": "its content has another sha256",
    }


def test_prune_deletes_what_was_chosen_and_says_what_it_frees(finished: Run, killed: Run, old: Run) -> None:
    planned = agent("--prune", "--until", "30d", "--dry-run")
    assert "would free" in planned.stdout
    assert "1 run would be deleted" in planned.stdout
    assert old.path.is_dir()
    assert "1 run deleted" in agent("--prune", "--until", "30d").stdout
    assert not old.path.exists()
    assert listed() == [killed.id, finished.id]
    document = json.loads(agent("--prune", "--keep", "1", "--json").stdout)
    assert (document["dry_run"], document["runs"][0]["run"]) == (False, finished.id)
    assert document["bytes"] == document["runs"][0]["bytes"] > 0
    assert listed() == [killed.id]


def test_prune_leaves_running_and_recorded_runs(killed: Run) -> None:
    with killed.writer():
        result = agent("--prune", "--keep", "0")
    assert "kept, it is running" in result.stdout
    assert "0 runs deleted" in result.stdout
    result = agent("--prune", "--status", "recorded", "--dry-run")
    assert "group_norm  kept, it is recorded" in result.stdout
    assert listed() == [killed.id]
