"""Answers from a program that reads the prompt on standard input and prints the answer.

Contract: each try of `complete` starts the program once in its own process group. No process of the group
outlives the call. Exit code 0 with text is an answer. EX_TEMPFAIL (75) is retried, like an overloaded
endpoint. Any other exit code is final and is reported with the last line of standard error. The program is
the user's own: it is not sandboxed and has the environment of `agent`. Its command line is split into words
without a shell. Its output is decoded and never run.
"""

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from agent.errors import EndpointError, UsageError
from agent.providers.answer import well_formed
from agent.providers.endpoint import one_line
from agent.providers.plain import text_of
from agent.providers.retry import RequestFailed, Waits, retrying
from agent.records import Completion, Prompt, RetryScheduled

LARGEST_ANSWER_BYTES = 64 * 2**20
TEMPORARY = os.EX_TEMPFAIL
_KEPT_WORDS = 8 << 10
_PIECE = 64 << 10
_LOOK_S = 0.05
_GRACE_S = 5.0
"""Time between SIGTERM and SIGKILL in seconds."""


class Command:
    """A provider that runs one command line."""

    def __init__(
        self, line: str, *, timeout_s: float, waits: Waits, on_retry: Callable[[RetryScheduled], None]
    ) -> None:
        """Parse the command line. Raises UsageError if it is invalid or the program does not exist."""
        self._argv = words(line)
        self._line = line
        self._timeout_s = timeout_s
        self._waits = waits
        self._on_retry = on_retry

    @property
    def name(self) -> str:
        return f"command:{self._line}"

    def complete(self, prompt: Prompt) -> Completion:
        """Return the program's answer. Raises EndpointError if the program failed for good."""
        retries = retrying(self._waits, self._on_retry)
        try:
            return retries(self._run, text_of(prompt))
        except RequestFailed as error:
            failed = error
        tries = int(retries.statistics.get("attempt_number", 1))
        times = f" (started {tries} times)" if tries > 1 else ""
        raise EndpointError(f"{self._argv[0]} {failed.what}{times}; {failed.mend}")

    def _run(self, text: str) -> Completion:
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise _failed(f"cannot be started: {one_line(str(error), limit=200)}") from None
        talk = _Talk(process, well_formed(text).encode(), started + self._timeout_s)
        try:
            ended = talk.carry()
        finally:
            _end(process)
        self._check(talk, ended)
        answer = bytes(talk.answer).decode("utf-8", "replace")
        if not answer.strip():
            raise _failed(f"ended without an answer on standard output{talk.last_words}")
        seconds = round(time.monotonic() - started, 3)
        return Completion(provider="command", model=None, text=answer, finish_reason="stop", seconds=seconds)

    def _check(self, talk: "_Talk", ended: bool) -> None:
        """Raise RequestFailed unless the program exited by itself with code 0."""
        if len(talk.answer) > LARGEST_ANSWER_BYTES:
            raise _failed(f"printed more than {LARGEST_ANSWER_BYTES >> 20} MB")
        if not ended:
            raise _failed(
                f"did not answer within {self._timeout_s:g} s{talk.last_words}",
                mend="allow it more with the setting request_timeout",
            )
        code = talk.code
        if code < 0:
            raise _failed(f"was ended by {_signal(-code)}{talk.last_words}")
        if code:
            raise _failed(f"ended with exit code {code}{talk.last_words}", transient=code == TEMPORARY)


def words(line: str) -> list[str]:
    """Split a command line into words. Raises UsageError if it is invalid or the program does not exist."""
    try:
        argv = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"--provider command: {one_line(str(error), limit=80)} in {line!r}") from None
    if not argv:
        raise UsageError("--provider command: needs a command, such as command:'my-model --quiet'")
    if shutil.which(argv[0]) is None:
        raise UsageError(
            f"--provider command: there is no program {argv[0]!r}; for a pipe or a variable of the shell,"
            " write command:\"sh -c '...'\""
        )
    return argv


@dataclass
class _Talk:
    """Exchange with one process: its input, its answer and the end of its standard error."""

    process: subprocess.Popen[bytes]
    pending: bytes
    deadline: float
    answer: bytearray = field(default_factory=bytearray)
    complaints: bytearray = field(default_factory=bytearray)
    code: int = 0

    @property
    def last_words(self) -> str:
        """Return the last line of standard error, led by a colon, or an empty string."""
        said = bytes(self.complaints).decode("utf-8", "replace").strip().splitlines()
        return f": {one_line(said[-1], limit=300)}" if said else ""

    def carry(self) -> bool:
        """Exchange data until the process has exited and its output is read.

        Returns False at the deadline or once the answer is too large. A child process may keep the pipes open
        after the program has exited, so only the program's exit counts.
        """
        with selectors.DefaultSelector() as selector:
            for stream in self._streams():
                os.set_blocking(stream.fileno(), False)
                writes = stream is self.process.stdin
                selector.register(stream, selectors.EVENT_WRITE if writes else selectors.EVENT_READ)
            while time.monotonic() < self.deadline and len(self.answer) <= LARGEST_ANSWER_BYTES:
                # The exit is checked before the pipes are read, so that the last output is not missed.
                over = _is_over(self.process)
                if over:
                    _tell(self.process, signal.SIGKILL)
                if not selector.get_map() and not over:
                    time.sleep(_LOOK_S)
                ready = selector.select(0 if over else _LOOK_S) if selector.get_map() else []
                for key, _ in ready:
                    self._exchange(selector, key.fileobj)  # type: ignore[arg-type]
                if over and not any(key.fileobj is not self.process.stdin for key, _ in ready):
                    self.code = self.process.wait()
                    return True
        return False

    def _streams(self) -> list[IO[bytes]]:
        process = self.process
        return [stream for stream in (process.stdin, process.stdout, process.stderr) if stream is not None]

    def _exchange(self, selector: selectors.BaseSelector, stream: IO[bytes]) -> None:
        if stream is self.process.stdin:
            # A program that does not read all of its input may still answer.
            with contextlib.suppress(BlockingIOError):
                try:
                    self.pending = self.pending[os.write(stream.fileno(), self.pending[:_PIECE]) :]
                except BrokenPipeError:
                    self.pending = b""
            if not self.pending:
                selector.unregister(stream)
                stream.close()
            return
        piece = os.read(stream.fileno(), _PIECE)
        if not piece:
            selector.unregister(stream)
        elif stream is self.process.stdout:
            self.answer += piece
        else:
            self.complaints += piece
            del self.complaints[:-_KEPT_WORDS]


def _is_over(process: subprocess.Popen[bytes]) -> bool:
    """Return True if the program has exited.

    The process is not reaped here, so that the id of its group is not reused.
    """
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and its group: SIGTERM first, then SIGKILL after `_GRACE_S` seconds."""
    if process.returncode is None:
        until = time.monotonic() + _GRACE_S
        if not _is_over(process):
            _tell(process, signal.SIGTERM)
        while not _is_over(process) and time.monotonic() < until:
            time.sleep(_LOOK_S)
        _tell(process, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _tell(process: subprocess.Popen[bytes], what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, what)


def _failed(
    what: str,
    *,
    mend: str = "try the command by hand with a prompt on its standard input",
    transient: bool = False,
) -> RequestFailed:
    return RequestFailed(what, mend=mend, transient=transient)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
