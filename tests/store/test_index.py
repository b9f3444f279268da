"""The index is what the transcripts say: made anew when it is not, never in the way."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from transcripts import SETTINGS, STARTED, Answers, Judge, converse, prompt

from agent.records import SCHEMA_VERSION, Prompted, RunFinished
from agent.store import Run, RunSummary, create, index, list_runs, recorded_runs, summary_of

ROOT = Path(__file__).parent.parent.parent


def settled(run: Run) -> Run:
    """As it is some time after the last line was written."""
    past = time.time() - 60
    os.utime(run.path / "events.jsonl", (past, past))
    return run


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Three runs, the second of them whole."""
    made = [create(tmp_path, SETTINGS) for _ in range(3)]
    with made[1].writer() as writer:
        converse(Answers(), Judge(), writer)
    return [settled(run) for run in made]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose transcripts were read, in order."""
    names: list[str] = []

    def counting(run: Run) -> RunSummary:
        names.append(run.id)
        return summary_of(run)

    monkeypatch.setattr(index, "summary_of", counting)
    return names


def test_what_is_known_is_not_read_again(tmp_path: Path, runs: list[Run], read: list[str]) -> None:
    first = list_runs(tmp_path)
    assert sorted(read) == sorted(run.id for run in runs)
    read.clear()
    assert list_runs(tmp_path) == first
    assert read == []
    assert first == [summary_of(run) for run in reversed(runs)]


def test_a_run_that_goes_on_is_read_again(tmp_path: Path, runs: list[Run], read: list[str]) -> None:
    list_runs(tmp_path)
    read.clear()
    with runs[0].writer() as writer:
        assert list_runs(tmp_path)[-1].state == "running"
        writer.append(STARTED)
    settled(runs[0])
    assert list_runs(tmp_path)[-1].state == "killed"
    assert read == [runs[0].id] * 2
    with runs[0].writer() as writer:
        writer.append(RunFinished(outcome="failed", best=None, reason="half a character \ud800"))
    summary = list_runs(tmp_path)[-1]
    assert (summary.state, summary.reason) == ("failed", "half a character ?")
    settled(runs[0])
    assert list_runs(tmp_path) == list_runs(tmp_path)


def test_a_file_changed_just_now_is_not_believed(tmp_path: Path, runs: list[Run], read: list[str]) -> None:
    os.utime(runs[2].path / "events.jsonl")
    list_runs(tmp_path)
    read.clear()
    list_runs(tmp_path)
    assert read == [runs[2].id]


def test_a_run_that_is_gone_is_not_listed(tmp_path: Path, runs: list[Run]) -> None:
    list_runs(tmp_path)
    shutil.rmtree(runs[1].path)
    assert len(list_runs(tmp_path)) == 2
    with sqlite3.connect(tmp_path / index.INDEX) as database:
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (2,)
    database.close()


def test_anew_reads_everything(tmp_path: Path, runs: list[Run], read: list[str]) -> None:
    list_runs(tmp_path)
    read.clear()
    told: list[tuple[int, int]] = []
    list_runs(tmp_path, lambda done, total: told.append((done, total)), anew=True)
    assert len(read) == 3
    assert told == [(0, 3), (1, 3), (2, 3)]


def overwritten(path: Path) -> None:
    path.write_bytes(b"no database at all " * 500)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def scrambled(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)


def executed(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def of_another_version(path: Path) -> None:
    executed(path, "DROP TABLE runs", "CREATE TABLE runs (id, other)", "PRAGMA user_version = 999")


def with_another_table(path: Path) -> None:
    executed(path, "DROP TABLE runs", "CREATE TABLE runs (id, other)")


def with_other_values(path: Path) -> None:
    executed(path, "UPDATE runs SET created = 'yesterday'")


@pytest.mark.parametrize(
    "damage",
    [
        overwritten,
        cut,
        emptied,
        scrambled,
        of_another_version,
        with_another_table,
        with_other_values,
    ],
)
def test_a_damaged_index_is_made_again(
    tmp_path: Path, runs: list[Run], read: list[str], damage: Callable[[Path], None]
) -> None:
    first = list_runs(tmp_path)
    damage(tmp_path / index.INDEX)
    assert list_runs(tmp_path) == first
    # Cut to its head a database may still hold rows; made again it holds all of them.
    list_runs(tmp_path)
    read.clear()
    assert list_runs(tmp_path) == first
    assert read == []


def test_an_index_that_cannot_be_written_is_done_without(
    tmp_path: Path, runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / index.INDEX).mkdir()
    first = list_runs(tmp_path)
    assert len(first) == 3
    (tmp_path / index.INDEX).rmdir()
    list_runs(tmp_path)
    monkeypatch.setattr(index, "_PATIENCE_S", 0.05)
    holder = sqlite3.connect(tmp_path / index.INDEX)
    holder.execute("BEGIN EXCLUSIVE")
    assert list_runs(tmp_path) == first
    holder.close()


def test_a_name_that_is_not_utf_8_is_listed_all_the_same(tmp_path: Path, runs: list[Run]) -> None:
    odd = runs[0].path.rename(tmp_path / os.fsdecode(b"run-\xff"))
    assert odd.name in {run.id for run in list_runs(tmp_path)}
    assert len(list_runs(tmp_path)) == 3


def test_a_run_without_a_manifest_and_one_without_events_are_listed(tmp_path: Path) -> None:
    (create(tmp_path, SETTINGS).path / "run.toml").unlink()
    (create(tmp_path, SETTINGS).path / "events.jsonl").unlink()
    assert sorted(run.state for run in list_runs(tmp_path)) == ["damaged", "killed"]


LISTER = """
import sys
from pathlib import Path
from agent.store import list_runs
for _ in range(15):
    print(len(list_runs(Path(sys.argv[1]), anew=len(sys.argv) > 2)), flush=True)
"""


def test_processes_that_write_it_at_once_do_not_break_it(tmp_path: Path, runs: list[Run]) -> None:
    environment = {"PYTHONPATH": str(ROOT)}
    commands = [[sys.executable, "-c", LISTER, str(tmp_path), *more] for more in ([], [], ["anew"])]
    children = [subprocess.Popen(c, stdout=subprocess.PIPE, text=True, env=environment) for c in commands]
    with runs[0].writer() as writer:
        for number in range(1, 20):
            writer.append(Prompted(round=number, prompt=prompt("a")))
            time.sleep(0.02)
    for child in children:
        out, _ = child.communicate(timeout=200)
        assert (child.returncode, out.split()) == (0, ["3"] * 15)
    settled(runs[0])
    assert list_runs(tmp_path)[-1].rounds == 19
    assert list_runs(tmp_path) == [summary_of(run) for run in reversed(runs)]


def test_the_version_counts_the_schema(tmp_path: Path, runs: list[Run]) -> None:
    list_runs(tmp_path)
    database = sqlite3.connect(tmp_path / index.INDEX)
    assert database.execute("PRAGMA user_version").fetchone()[0] % 1000 == SCHEMA_VERSION
    database.close()


def test_nothing_is_put_beside_recorded_runs(tmp_path: Path) -> None:
    run = create(tmp_path / "recorded", SETTINGS)
    assert [summary.id for summary in list_runs(tmp_path / "recorded")] == [run.id]
    assert list((tmp_path / "recorded").iterdir()) == [run.path]


def test_the_shipped_runs_have_their_address() -> None:
    shipped = recorded_runs()
    assert "recorded/group_norm" in {run.address for run in shipped}
    assert {run.state for run in shipped} == {"recorded"}
