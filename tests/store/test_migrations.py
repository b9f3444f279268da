"""Runs of earlier schema versions read, list and resume; the fixtures were written by those versions."""

import shutil
from pathlib import Path

import pytest
from transcripts import STARTED, prompt

from agent.errors import UsageError
from agent.records import SCHEMA_VERSION, Prompted, Status
from agent.store import Resume, Run, list_runs

FIXTURES = Path(__file__).parent / "fixtures"
"""`schema-1`: as first released. `schema-1-extended`: with the fields that came before there was a 2."""


def copied(name: str, folder: Path) -> Run:
    shutil.copytree(FIXTURES / name, folder / name)
    return Run(folder / name, name)


@pytest.mark.parametrize("name", ["schema-1", "schema-1-extended"])
def test_a_run_of_schema_1_reads_whole(name: str) -> None:
    run = Run(FIXTURES / name, name)
    assert b'"schema_version":1' in (run.path / "events.jsonl").read_bytes()
    assert (run.info.schema_version, run.info.settings.model) == (SCHEMA_VERSION, "m-1")
    log = run.read()
    assert (log.problems, log.cut) == ((), False)
    assert {event.schema_version for event in log.events} == {SCHEMA_VERSION}
    assert [event.kind for event in log.events] == [
        "run_started", "prompted", "retry_scheduled", "completed", "evaluated", "evaluated",
        "prompted", "completed", "reply_rejected", "run_finished",
    ]  # fmt: skip
    broken, mended = (attempt.evaluation for attempt in log.attempts)
    assert {broken.schema_version, mended.schema_version} == {SCHEMA_VERSION}
    assert (broken.status, mended.status) == (Status.BUILD_ERROR, Status.VERIFIED)
    assert mended.measurement is not None
    assert mended.measurement.speedup == 2.0
    assert mended.build is not None
    assert mended.build.kernels[0].registers == 32
    assert log.answers[0][1].usage.output_tokens == 340


def test_what_the_first_version_did_not_record_is_unknown_and_what_a_later_one_did_is_kept() -> None:
    first, later = (
        Run(FIXTURES / name, name).read().attempts[1].evaluation for name in ("schema-1", "schema-1-extended")
    )
    assert (first.profile, first.admission, first.envelope) == (None, None, None)
    assert first.measurement is not None
    assert first.measurement.speedup_interval is None
    assert later.profile is not None
    assert later.profile.own_share == 1.0
    assert later.measurement is not None
    assert later.measurement.speedup_interval == (1.9, 2.1)
    assert later.scope.requested == ("backward",)


def test_an_old_run_lists_resumes_and_takes_new_events(tmp_path: Path) -> None:
    run = copied("schema-1", tmp_path)
    assert [summary.state for summary in list_runs(tmp_path)] == ["finished"]
    resume = Resume(run.read())
    assert len(resume.answers) == 2
    with run.writer() as writer:
        writer.append(Prompted(round=3, prompt=prompt("third")))
    log = run.read()
    assert not log.problems
    assert [event.seq for event in log.events] == list(range(11))


def test_a_run_of_a_later_version_says_so(tmp_path: Path) -> None:
    run = copied("schema-1", tmp_path)
    manifest = run.path / "run.toml"
    manifest.write_text(manifest.read_text().replace("schema_version = 1", "schema_version = 99"))
    with pytest.raises(UsageError, match=r"run\.toml was written by a newer version \(schema 99"):
        _ = run.info


def test_new_events_carry_the_present_version(tmp_path: Path) -> None:
    run = copied("schema-1", tmp_path)
    with run.writer() as writer:
        writer.append(STARTED)
    last = (run.path / "events.jsonl").read_bytes().splitlines()[-1]
    assert f'"schema_version":{SCHEMA_VERSION}'.encode() in last
