"""Hashes that no longer fit are named; what is deleted is a run, whole, and neither recorded nor running."""

import os
import shutil
import time
from pathlib import Path

import pytest
from transcripts import SETTINGS, Answers, Judge, converse

from agent.errors import UsageError
from agent.records import Unconfirmed
from agent.store import Run, Writer, create
from agent.store.upkeep import Fault, delete, verify


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = create(tmp_path / "runs", SETTINGS)
    with made.writer() as writer:
        converse(Answers(), Judge(), writer)
    return made


def places(faults: tuple[Fault, ...]) -> list[str]:
    return [fault.place for fault in faults]


def replace(run: Run, old: bytes, new: bytes) -> None:
    events = run.path / "events.jsonl"
    content = events.read_bytes()
    assert old in content
    events.write_bytes(content.replace(old, new, 1))


def test_a_run_as_it_was_written_has_no_fault(run: Run) -> None:
    assert verify(run) == ()
    assert verify(Run(Path(__file__).parent / "fixtures" / "schema-1", "schema-1")) == ()


def test_each_damaged_blob_is_named_and_the_lines_that_need_it(run: Run) -> None:
    first, second = sorted((run.path / "blobs").iterdir())[:2]
    first.write_text("something else")
    second.unlink()
    faults = verify(run)
    assert f"blobs/{first.name}" in places(faults)
    assert any("is damaged" in fault.reason for fault in faults)
    assert any("is missing" in fault.reason for fault in faults)
    assert all(fault.run == run.id for fault in faults)


def test_a_prompt_that_was_changed_no_longer_hashes_to_what_was_answered(run: Run) -> None:
    lines = (run.path / "events.jsonl").read_bytes().splitlines()
    assert b'"prompted"' in lines[1]
    replace(run, b'"role":"user"', b'"role":"system"')
    assert places(verify(run)) == ["events.jsonl, line 3"]
    assert "answers prompt" in verify(run)[0].reason


@pytest.mark.parametrize("which", [b"parent", b"second_parent"])
def test_an_attempt_whose_parent_is_not_there_is_named(run: Run, which: bytes) -> None:
    replace(run, b'"%s":null' % which, b'"%s":"0123456789abcdef"' % which)
    fault = verify(run)[0]
    assert fault.place == "events.jsonl, line 4"
    assert "0123456789abcdef" in str(fault)


def test_lines_and_manifest_are_checked_too(run: Run) -> None:
    replace(run, b'{"schema_version"', b"{")
    (run.path / "run.toml").write_text("?")
    assert places(verify(run)) == ["run.toml", "events.jsonl, line 1"]


def test_a_cut_last_line_is_how_a_killed_run_ends(run: Run) -> None:
    with (run.path / "events.jsonl").open("ab") as file:
        file.write(b'{"kind": "prom')
    (run.path / "blobs" / ".new-abc").write_text("half")
    assert verify(run) == ()


def test_deleting_frees_what_it_says(run: Run) -> None:
    size = sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file())
    planned = delete(run, dry=True)
    assert (planned.bytes, planned.kept) == (size, None)
    assert run.path.is_dir()
    assert delete(run) == planned
    assert not run.path.exists()
    assert delete(run).kept == "it is gone already"


def test_a_recorded_run_stays(run: Run) -> None:
    kept = run.path.parent / "recorded" / run.id
    shutil.copytree(run.path, kept)
    assert delete(Run(kept, run.id)).kept == "it is recorded"
    assert kept.is_dir()


@pytest.mark.parametrize("dry", [True, False])
def test_a_running_run_stays(run: Run, dry: bool) -> None:
    with run.writer():
        assert delete(run, dry=dry).kept == "it is running"
    assert run.read().finished is not None


def test_a_run_that_has_just_been_made_stays(tmp_path: Path) -> None:
    run = create(tmp_path, SETTINGS)
    assert delete(run).kept == "it has just been made"
    past = time.time() - 3600
    os.utime(run.path / "events.jsonl", (past, past))
    assert delete(run).kept is None


@pytest.mark.parametrize("foreign", ["notes.txt", "blobs/notes.txt", "blobs/" + "0" * 64 + "/x", "best.py/x"])
def test_a_folder_that_holds_anything_else_stays_whole(run: Run, foreign: str) -> None:
    path = run.path / foreign
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    before = sorted(run.path.rglob("*"))
    assert "what is not of a run" in (delete(run).kept or "")
    assert sorted(run.path.rglob("*")) == before


def test_links_are_not_followed(run: Run, tmp_path: Path) -> None:
    link = tmp_path / "runs" / "link"
    link.symlink_to(run.path)
    assert delete(Run(link, "link")).kept == "it is a link to another folder"
    outside = tmp_path / "outside"
    shutil.copytree(run.path / "blobs", outside)
    shutil.rmtree(run.path / "blobs")
    (run.path / "blobs").symlink_to(outside)
    assert "not of a run: blobs" in (delete(run).kept or "")
    assert verify(run) == ()
    assert sorted(outside.iterdir())


def test_a_writer_that_waited_while_the_run_was_deleted_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deleted_first(file: object) -> None:
        shutil.rmtree(run.path)

    monkeypatch.setattr("agent.store.writer._lock", deleted_first)
    with pytest.raises(UsageError, match="was just deleted by another process"):
        Writer(run.path)


def test_a_second_look_at_an_attempt_that_is_not_there_is_named(run: Run) -> None:
    with run.writer() as writer:
        writer.append(Unconfirmed(round=1, number=3, reason="gone"))
        writer.append(Unconfirmed(round=1, number=9, reason="gone"))
    (fault,) = verify(run)
    assert fault.reason == "is about attempt 9, which no event before it judged"
