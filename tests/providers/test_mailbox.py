"""A folder as the other side: prompts and answers as files, and every way in which a file is no answer."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from providers.asking import PROMPT

from agent.errors import AwaitingAnswers, EndpointError, UsageError
from agent.providers.mailbox import Mailbox
from agent.records import Completion, Message, Prompt

OTHER = Prompt(template="generate", messages=(Message(role="user", content="Another kernel, please."),))
NAME = f"run-1-{PROMPT.id[:8]}-1"


class Person:
    """Does one thing each time the mailbox pauses; a fault where it waits after the last."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.acts = list(acts)
        self.said: list[str] = []

    def pause(self, seconds: float) -> None:
        assert seconds > 0
        assert self.acts, f"waits on: {self.said}"
        self.acts.pop(0)()


def nothing() -> None:
    """Lets the time pass."""


def mailbox(
    folder: Path, person: Person, *, run: str = "run-1", wait: bool = True, received: tuple[str, ...] = ()
) -> Mailbox:
    box = Mailbox(str(folder), wait=wait, say=person.said.append, pause=person.pause)
    return box.for_run(run, received)


def writes(path: Path, data: bytes) -> Callable[[], object]:
    return lambda: path.write_bytes(data)


def test_prompt_is_a_file_and_the_answer_is_awaited(tmp_path: Path) -> None:
    answer = tmp_path / f"{NAME}.answer.md"
    person = Person(nothing, writes(answer, "the answer, π".encode()), nothing)
    completion = mailbox(tmp_path, person).complete(PROMPT)
    assert (completion.text, completion.request_id, completion.provider) == ("the answer, π", NAME, "mailbox")
    assert (tmp_path / f"{NAME}.prompt.md").read_text() == "You write CUDA.\n\nA kernel, please.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{NAME}.answer.md", f"{NAME}.prompt.md"]
    assert len(person.said) == 1
    assert f"{NAME}.prompt.md" in person.said[0]


def test_half_written_answer_is_left_alone_until_it_stands_still(tmp_path: Path) -> None:
    answer = tmp_path / f"{NAME}.answer.md"
    person = Person(
        writes(answer, b"half"), writes(answer, b"half an"), writes(answer, b"half an answer, whole"), nothing
    )
    assert mailbox(tmp_path, person).complete(PROMPT).text == "half an answer, whole"
    assert person.acts == []


def test_answer_that_is_renamed_into_place_while_it_is_read(tmp_path: Path) -> None:
    answer, better = tmp_path / f"{NAME}.answer.md", tmp_path / "better"
    answer.write_text("first")
    better.write_text("other")
    person = Person(lambda: better.replace(answer), nothing)
    assert mailbox(tmp_path, person).complete(PROMPT).text == "other"


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"kernel \xff\xfe\xfd", "is not UTF-8 text"), (b"", "is empty"), (b"\xef\xbb\xbf \n", "is empty")],
)
def test_file_that_is_no_text_is_told_once_and_another_awaited(tmp_path: Path, data: bytes, why: str) -> None:
    answer = tmp_path / f"{NAME}.answer.md"
    answer.write_bytes(data)
    person = Person(nothing, nothing, nothing, writes(answer, b"now as text"), nothing)
    assert mailbox(tmp_path, person).complete(PROMPT).text == "now as text"
    assert [line for line in person.said if why in line] == [f"{answer.name} {why}: waiting for another"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_text_as_editors_on_windows_write_it(tmp_path: Path, encoding: str) -> None:
    (tmp_path / f"{NAME}.answer.md").write_bytes("kernel π\r\n".encode(encoding))
    assert mailbox(tmp_path, Person(nothing)).complete(PROMPT).text == "kernel π\r\n"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "huge"])
def test_what_is_no_plain_file_is_neither_followed_nor_waited_on(tmp_path: Path, kind: str) -> None:
    answer = tmp_path / f"{NAME}.answer.md"
    if kind == "link":
        (tmp_path / "secret").write_text("a secret")
        answer.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(answer)
    elif kind == "folder":
        answer.mkdir()
    else:
        with answer.open("wb") as file:
            file.truncate(2**30)
    why = "is larger than 64 MB" if kind == "huge" else "is no regular file"
    with pytest.raises(AwaitingAnswers, match=why):
        mailbox(tmp_path, Person(), wait=False).complete(PROMPT)


def test_without_waiting_the_prompt_is_there_and_the_run_is_left(tmp_path: Path) -> None:
    with pytest.raises(AwaitingAnswers, match=f"{NAME}.answer.md is missing") as caught:
        mailbox(tmp_path, Person(), wait=False).complete(PROMPT)
    assert caught.value.exit_code == 75
    (tmp_path / f"{NAME}.answer.md").write_text("later")
    assert mailbox(tmp_path, Person(nothing), wait=False).complete(PROMPT).text == "later"


def test_same_prompt_twice_has_two_answers_and_none_is_taken_twice(tmp_path: Path) -> None:
    second = NAME[:-1] + "2"
    for name, text in ((NAME, "one"), (second, "two")):
        (tmp_path / f"{name}.answer.md").write_text(text)
    box = mailbox(tmp_path, Person(nothing, nothing))
    assert [box.complete(PROMPT).text, box.complete(PROMPT).text] == ["one", "two"]
    # Of two that were asked beside one another the second came first, and the run was stopped.
    resumed = mailbox(tmp_path, Person(nothing), received=(second,))
    assert resumed.complete(PROMPT).text == "one"


def test_two_runs_in_one_mailbox_do_not_take_each_others_answers(tmp_path: Path) -> None:
    answers: dict[str, Completion] = {}
    for run in ("run-1", "run-2"):
        (tmp_path / f"{run}-{PROMPT.id[:8]}-1.answer.md").write_text(f"for {run}")
    for run in ("run-2", "run-1"):
        answers[run] = mailbox(tmp_path, Person(nothing), run=run).complete(PROMPT)
    assert {run: answer.text for run, answer in answers.items()} == {
        "run-1": "for run-1",
        "run-2": "for run-2",
    }
    assert len(list(tmp_path.glob("*.prompt.md"))) == 2


def test_other_prompts_have_other_names(tmp_path: Path) -> None:
    for prompt in (PROMPT, OTHER):
        with pytest.raises(AwaitingAnswers):
            mailbox(tmp_path, Person(), wait=False).complete(prompt)
    assert len(list(tmp_path.glob("*.prompt.md"))) == 2


def test_folder_that_goes_away_ends_the_waiting(tmp_path: Path) -> None:
    folder = tmp_path / "box"
    with pytest.raises(EndpointError, match="cannot be used any more: No such file") as caught:
        mailbox(folder, Person(lambda: shutil.rmtree(folder))).complete(PROMPT)
    assert caught.value.exit_code == 4


def test_a_full_disk_is_told_and_leaves_no_half_of_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(EndpointError, match="No space left on device; free some space"):
        mailbox(tmp_path, Person(lambda: None)).complete(PROMPT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["missing/box", "file"])
def test_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="--provider mailbox: cannot make"):
        Mailbox(str(tmp_path / place), wait=True, say=print)
