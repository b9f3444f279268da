"""Answers exchanged through a folder: each prompt is written as a file, and so is its answer.

Contract: `NAME.prompt.md` appears atomically, and `NAME.answer.md` beside it is the answer. NAME consists of
the run's id, the prompt's id and a count. Runs can therefore share a folder, and a prompt that is asked twice
has two answers. An answer in the transcript is never taken again. A resumed run finds the other answers,
even if the folder was moved to another machine. A file is read once it has been unchanged for `SETTLED_S`, so
an editor may write it in place. An unusable file (empty, not UTF-8, not a regular file) is reported once, and
the wait continues. No answer or prompt is ever deleted. Only regular files are opened.
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
"""Time in seconds for which a file has to be unchanged before it is read."""
_LOOK_S = 0.5
_PROMPT, _ANSWER = ".prompt.md", ".answer.md"
_MENDS = {
    errno.ENOENT: "put it back", errno.ENOSPC: "free some space", errno.EDQUOT: "free some space",
    errno.EACCES: "make it writable", errno.EROFS: "make it writable",
}  # fmt: skip


class _State(NamedTuple):
    """File state that changes when a file is written or replaced."""

    inode: int
    size: int
    changed_ns: int


class _Unusable(Exception):
    """Reason why a file cannot be used as an answer."""


class Mailbox:
    """A provider that exchanges prompts and answers through one folder."""

    def __init__(
        self,
        folder: str,
        *,
        wait: bool,
        say: Callable[[str], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the folder if needed. Raises UsageError if it cannot be created.

        With `wait`, `complete` waits for the answer. Otherwise it raises AwaitingAnswers.
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
        """Bind this mailbox to one run and return it.

        `received` holds the `request_id` of each answer in the run's transcript.
        """
        self._run = f"{run}-"
        self._taken = set(received)
        return self

    def complete(self, prompt: Prompt) -> Completion:
        """Return the answer to one prompt.

        Raises AwaitingAnswers if it is missing and the mailbox does not wait. Raises EndpointError if the
        folder cannot be used.
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
        """Return the names of a run's prompts without an answer file."""
        asked = sorted(path.name.removesuffix(_PROMPT) for path in self._folder.glob(f"{run}-*{_PROMPT}"))
        return tuple(name for name in asked if not (self._folder / f"{name}{_ANSWER}").exists())

    def answer(self, name: str, text: str) -> None:
        """Write the answer to a prompt atomically. Raises UsageError if there is one already."""
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
        """Reserve and return the first name of this prompt that is not taken."""
        with self._lock:
            count = 1
            while (name := f"{self._run}{prompt.id[:8]}-{count}") in self._taken:
                count += 1
            self._taken.add(name)
            return name

    def _post(self, path: Path, text: str) -> None:
        """Write the prompt atomically, unless an earlier process of this run has written it."""
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
        """Return the text of the answer and wait for it if the mailbox waits."""
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
        """Return the text once the file is unchanged, or None if there is no complete file yet.

        Raises _Unusable if the file is not text.
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
        """Return the state of a file, or None if it does not exist.

        Raises OSError if the folder is gone, and _Unusable if the file is irregular or too large.
        """
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
    # The file may have become a link or a pipe since: do not follow it or block on it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        return file.read(LARGEST_ANSWER_BYTES + 1)


def _decoded(data: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, which editors on Windows write."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise _Unusable("is not UTF-8 text") from None
    if not text.strip():
        raise _Unusable("is empty")
    return text
