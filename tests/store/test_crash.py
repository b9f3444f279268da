"""A run that dies anywhere reads, resumes, and asks for nothing twice."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from transcripts import SETTINGS, Answers, Judge, converse

from agent.records import Completed, Evaluated, Event
from agent.store import Resume, Run, create, open_run

CUTS = 50


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A complete run of four rounds."""
    run = create(tmp_path_factory.mktemp("runs"), SETTINGS)
    with run.writer() as writer:
        converse(Answers(), Judge(), writer)
    return run


def essence(event: Event) -> Event:
    return event.model_copy(update={"time": None})


@pytest.mark.parametrize("cut", range(CUTS))
def test_cut_anywhere_it_reads_and_resumes(whole: Run, tmp_path: Path, cut: int) -> None:
    full = (whole.path / "events.jsonl").read_bytes()
    size = len(full) * cut // CUTS + cut % 7
    run = Run(tmp_path / whole.id, whole.id)
    shutil.copytree(whole.path, run.path)
    (run.path / "events.jsonl").write_bytes(full[:size])

    log = run.read()
    assert log.events == whole.read().events[: full[:size].count(b"\n")]
    assert not log.problems
    assert log.cut == (not full[:size].endswith(b"\n") and size > 0)

    provider, executor, resume = Answers(), Judge(), Resume(log)
    with run.writer() as writer:
        converse(resume.provider(provider), resume.executor(executor), resume.transcript(writer))
    answered = [event.prompt_id for event in log.events if isinstance(event, Completed)]
    judged = [event for event in log.events if isinstance(event, Evaluated)]
    assert len(provider.asked) == 4 - len(answered)
    assert not set(provider.asked) & set(answered)
    assert len(executor.judged) == 3 - len(judged)
    after = run.read()
    assert [essence(event) for event in after.events] == [essence(event) for event in whole.read().events]
    assert after.finished is not None


ENDLESS = """
import sys
from pathlib import Path
from transcripts import SETTINGS, LONG, prompt
from agent.records import Prompted
from agent.store import create
run = create(Path(sys.argv[1]), SETTINGS)
with run.writer() as writer:
    number = 0
    while True:
        number += 1
        writer.append(Prompted(round=number, prompt=prompt(f"{number}\\n{LONG}")))
        print(run.id, number, flush=True)
"""


def test_killed_in_the_middle_of_writing(tmp_path: Path) -> None:
    tests = Path(__file__).parent.parent
    environment = {"PYTHONPATH": f"{tests}:{tests.parent}"}
    command = [sys.executable, "-c", ENDLESS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            name, number = line.split()
            if int(number) >= 20:
                break
        process.send_signal(signal.SIGKILL)
    run = open_run(name, tmp_path)
    log = run.read()
    assert not log.problems
    assert len(log.events) >= 20
    assert all(event.kind == "prompted" for event in log.events)
    with run.writer():
        assert not run.read().cut
