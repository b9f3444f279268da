"""Answers of whoever reads a folder: each prompt is a file, and its answer is awaited as a file.

Contract: `NAME.prompt.md` appears whole or not at all, and `NAME.answer.md` beside it is the answer. NAME
holds the run's id, the prompt's and a count, so runs share a folder, and a prompt that is asked twice has two
answers. An answer that the transcript holds is never taken again, and one that it does not is found again by
a resumed run, on whichever machine the folder is. A file counts when it has stood unchanged for a moment, so
an editor may write it in place; one that cannot be used (no text, no UTF-8, no plain file) is told once and
waited for further. Nothing is ever deleted, and nothing in the folder is followed, run or waited on but
regular files.
"""

import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agent.errors import AwaitingAnswers, EndpointError, UsageError
from agent.providers.answer import well_formed
from agent.providers.plain import text_of
from agent.records import Completion, Prompt

LARGEST_ANSWER_BYTES = 64 * 2**20
SETTLED_S = 1.0
"""So long a file has to stand unchanged; whoever renames a finished file into place loses only this."""
_LOOK_S = 0.5
_PROMPT, _ANSWER = ".prompt.md", ".answer.md"
_MENDS = {
    errno.ENOENT: "put it back", errno.ENOSPC: "free some space", errno.EDQUOT: "free some space",
    errno.EACCES: "make it writable", errno.EROFS: "make it writable",
}  # fmt: skip


class _State(NamedTuple):
    """What changes when a file is written to or replaced."""

    inode: int
    size: int
    changed_ns: int


class _Unusable(Exception):
    """Why a file is no answer."""


class Mailbox:
    """A provider over one folder."""

    def __init__(
        self,
        folder: str,
        *,
        wait: bool,
        say: Callable[[str], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`wait`: until the answer is there; else AwaitingAnswers is raised.

        Raises UsageError for a folder that cannot be made.
        """
        self._given = folder
        self._folder = Path(folder).expanduser()
        self._wait, self._say, self._pause = wait, say, pause
        self._run = ""
        self._taken: set[str] = set()
        self._lock = threading.Lock()
        try:
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UsageError(f"--provider mailbox: cannot make {folder}: {error.strerror}") from None

    @property
    def name(self) -> str:
        return f"mailbox:{self._given}"

    def for_run(self, run: str, received: Iterable[str]) -> "Mailbox":
        """This mailbox for one run; `received` names the answers that its transcript holds (`request_id`)."""
        self._run = f"{run}-"
        self._taken = set(received)
        return self

    def complete(self, prompt: Prompt) -> Completion:
        """The answer to one prompt.

        Raises AwaitingAnswers where it is not there and nobody waits, EndpointError where the folder is gone.
        """
        name = self._next(prompt)
        answer = self._folder / f"{name}{_ANSWER}"
        started = time.monotonic()
        try:
            self._post(self._folder / f"{name}{_PROMPT}", text_of(prompt))
            text = self._awaited(answer)
        except OSError as error:
            mend = _MENDS.get(error.errno or 0, "see to that")
            raise EndpointError(
                f"the mailbox {self._given} cannot be used any more: {error.strerror}; {mend}"
            ) from None
        return Completion(
            provider="mailbox", model=None, text=text, finish_reason="stop", request_id=name,
            seconds=round(time.monotonic() - started, 3),
        )  # fmt: skip

    def unanswered(self, run: str) -> tuple[str, ...]:
        """The names of a run's questions that no answer lies beside."""
        asked = sorted(path.name.removesuffix(_PROMPT) for path in self._folder.glob(f"{run}-*{_PROMPT}"))
        return tuple(name for name in asked if not (self._folder / f"{name}{_ANSWER}").exists())

    def answer(self, name: str, text: str) -> None:
        """Puts the answer to a question there, whole. Raises UsageError where one lies there already."""
        path = self._folder / f"{name}{_ANSWER}"
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            unfinished.write_text(well_formed(text), encoding="utf-8")
            os.link(unfinished, path)
        except FileExistsError:
            raise UsageError(f"{path.name}: this question is answered already") from None
        except OSError as error:
            raise EndpointError(f"the mailbox {self._given} takes no answer: {error.strerror}") from error
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def _next(self, prompt: Prompt) -> str:
        """The first name of this prompt whose answer nobody has taken."""
        with self._lock:
            count = 1
            while (name := f"{self._run}{prompt.id[:8]}-{count}") in self._taken:
                count += 1
            self._taken.add(name)
            return name

    def _post(self, path: Path, text: str) -> None:
        """Puts the prompt there at once; one of an earlier process of this run stays."""
        if path.exists():
            return
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with unfinished.open("w", encoding="utf-8") as file:
                file.write(well_formed(text))
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def _awaited(self, path: Path) -> str:
        """The text of the answer, waited for if that was asked for."""
        self._say(f"the prompt is in {path.with_name(path.name.replace('.answer.', '.prompt.'))}; "
                  f"its answer is awaited as {path.name}")  # fmt: skip
        told = ""
        while True:
            why = ""
            try:
                text = self._read(path)
                if text is not None:
                    return text
            except _Unusable as unusable:
                why = str(unusable)
            if not self._wait:
                raise AwaitingAnswers(f"{path.name} {why or 'is missing'} (mailbox {self._given})")
            if why and why != told:
                self._say(f"{path.name} {why}: waiting for another")
                told = why
            self._pause(_LOOK_S)

    def _read(self, path: Path) -> str | None:
        """The text once it stands still; None where there is none yet.

        Raises _Unusable for what is no text.
        """
        before = self._state(path)
        if before is None:
            return None
        while True:
            self._pause(SETTLED_S)
            now = self._state(path)
            if now is None:
                return None
            if now == before:
                break
            before = now
        data = _bytes(path)
        if self._state(path) != before:
            return None
        return _decoded(data)

    def _state(self, path: Path) -> _State | None:
        """Raises OSError when the folder itself is gone, _Unusable for what is not a file of text."""
        try:
            found = path.lstat()
        except FileNotFoundError:
            self._folder.stat()
            return None
        if not stat.S_ISREG(found.st_mode):
            raise _Unusable("is no regular file")
        if found.st_size > LARGEST_ANSWER_BYTES:
            raise _Unusable(f"is larger than {LARGEST_ANSWER_BYTES >> 20} MB")
        return _State(found.st_ino, found.st_size, found.st_mtime_ns)


def _bytes(path: Path) -> bytes:
    # What became a link or a pipe meanwhile is neither followed nor waited on.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        return file.read(LARGEST_ANSWER_BYTES + 1)


def _decoded(data: bytes) -> str:
    """UTF-8, or UTF-16 that says so at its beginning, as editors on Windows write it."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise _Unusable("is not UTF-8 text") from None
    if not text.strip():
        raise _Unusable("is empty")
    return text
