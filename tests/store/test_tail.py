"""Reading a run while it is written."""

from pathlib import Path

from transcripts import LONG, SETTINGS, STARTED, prompt

from agent.records import Prompted
from agent.store import create
from agent.store.log import Damage
from agent.store.tail import Tail


def test_each_event_comes_once_and_only_whole(tmp_path: Path) -> None:
    run = create(tmp_path, SETTINGS)
    tail = Tail(run)
    assert tail.look() == ([], False)
    events = run.path / "events.jsonl"
    with run.writer() as writer:
        writer.append(STARTED)
        found, alive = tail.look()
        assert ([getattr(event, "kind", None) for event in found], alive) == (["run_started"], True)
        writer.append(Prompted(round=1, prompt=prompt(LONG)))
        whole = events.read_bytes()
        events.write_bytes(whole[:-1])
        assert tail.look() == ([], True)
        events.write_bytes(whole)
        found, _ = tail.look()
        assert [event.prompt for event in found if isinstance(event, Prompted)] == [prompt(LONG)]
        assert tail.look() == ([], True)
    assert tail.look() == ([], False)


def test_a_damaged_line_has_its_number_and_the_rest_comes(tmp_path: Path) -> None:
    run = create(tmp_path, SETTINGS)
    with run.writer() as writer:
        writer.append(STARTED)
    with (run.path / "events.jsonl").open("ab") as file:
        file.write(b"garbage\n")
    tail = Tail(run)
    found, _ = tail.look()
    assert isinstance(found[1], Damage)
    assert found[1].line == 2
    with run.writer() as writer:
        writer.append(Prompted(round=1, prompt=prompt("a")))
    found, _ = tail.look()
    assert len(found) == 1


def test_a_run_that_is_gone_has_no_events(tmp_path: Path) -> None:
    run = create(tmp_path, SETTINGS)
    (run.path / "events.jsonl").unlink()
    assert Tail(run).look() == ([], False)
