"""Child processes: exchange of messages with them, and their reliable termination."""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from agent.errors import EnvironmentFault, defect
from agent.sandbox import messages
from agent.sandbox.enter.system import (
    DISK_EXCEEDED,
    MEMORY_EXCEEDED,
    PR_SET_PDEATHSIG,
    PROCESSES_EXCEEDED,
    RESERVED,
    SETUP_FAILED,
)
from agent.sandbox.isolation import enclosed, is_entered_by_us, plan_of, surroundings
from agent.sandbox.levels import Limits
from agent.sandbox.servers import Handed, ProcessServer, Started
from agent.sandbox.stopwatch import Stopwatch
from agent.sandbox.view import Box

Message = dict[str, Any]
_LIBC = ctypes.CDLL(None, use_errno=True)
MAX_LINE = 8 << 20
LAST_WORDS_S = 2.0
"""Maximum seconds to wait for the remaining output of a child that has ended."""


class ChildFault(Exception):
    """Exception raised if a child broke the protocol; the message says how."""


class TimedOut(ChildFault):
    """Exception raised if a child gave no answer within its limit and was killed.

    For a sandboxed child, the limit counts seconds as `Stopwatch` does; for other children, wall time.
    """


class Gone(ChildFault):
    """Exception raised if the child ended without an answer."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Overrun(ChildFault):
    """Exception raised if a child was killed for exceeding a resource limit, named in the message."""


class OutputFlood(ChildFault):
    """Exception raised if a child printed more than its limit and was killed."""


class Child:
    """One process that answers JSON lines; use as a context manager.

    With a `box`, the process runs in that sandbox, and processes that it starts end with it. Without a `box`,
    the process is trusted and runs like its parent. The last element of its `argv` is the number of the
    descriptor for answers. The descriptors in `passed` are inherited as well. No child outlives its parent.
    """

    def __init__(
        self,
        argv: list[str],
        *,
        env: Mapping[str, str],
        box: Box | None = None,
        limits: Limits | None = None,
        passed: tuple[int, ...] = (),
        server: ProcessServer | None = None,
    ) -> None:
        """Start the process, or have `server` fork it if a forked process can enter the sandbox."""
        self._limits = limits or Limits()
        self._boxed = box is not None
        # The keeper ends the sandbox, so it must receive SIGTERM first.
        self._gentle = self._limits.gentle or self._boxed
        self._flooded = False
        self._printed = 0
        self._kept = bytearray()
        self._pending = bytearray()
        reading, writing = os.pipe()
        self._answers = reading
        ending = signal.SIGTERM if self._gentle else signal.SIGKILL

        def restrict() -> None:
            _LIBC.prctl(PR_SET_PDEATHSIG, ending)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        argv = [*argv, str(writing)]
        environment = dict(env) if box is None else surroundings(dict(env), box)
        folder = Path.cwd() if box is None else box.folder
        self._process: subprocess.Popen[bytes] | Handed
        try:
            if server is not None and (box is None or is_entered_by_us(box)):
                plan = None if box is None else plan_of(box, self._limits)
                wanted = Started(argv, folder, environment, (writing, *passed), ending, plan)
                self._process = server.start(wanted)
            else:
                self._process = subprocess.Popen(
                    argv if box is None else enclosed(argv, box, self._limits),
                    cwd=folder, env=environment, pass_fds=(writing, *passed),
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    start_new_session=True, preexec_fn=restrict,
                )  # fmt: skip
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._drain = threading.Thread(target=self._read_log, daemon=True)
        self._drain.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def log(self) -> str:
        """End of the child's output, up to `Limits.kept_bytes` bytes."""
        return bytes(self._kept).decode("utf-8", "replace")

    def ask(
        self,
        message: Message,
        timeout_s: float,
        serve: Callable[[Message], Message] | None = None,
        *,
        afresh: bool = False,
        granted: Callable[[], float] = lambda: 0.0,
    ) -> Message:
        """Send one command and return its answer.

        A message of the child with a `request` key is a question, which `serve` answers. The time that
        `serve` takes does not count. `granted` is called repeatedly, and its seconds extend the limit. With
        `afresh`, for a trusted child, the limit begins anew after each question.
        Raises TimedOut, Gone or OutputFlood.
        """
        watch = Stopwatch(self._process.pid if self._boxed else None)
        self._send(message)
        while True:
            answer = self._receive(watch, timeout_s, granted)
            if serve is None or "request" not in answer:
                return answer
            watch.seconds()
            self._send(serve(answer))
            watch.skip()
            if afresh:
                watch = Stopwatch(None)

    def finish(self, timeout_s: float) -> str:
        """Close the child's input, wait for it to end, and return its output."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=timeout_s)
        self.kill()
        return self.log

    def kill(self) -> None:
        """End the child and all processes that it started. Safe to repeat."""
        if self._gentle and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join(timeout=5)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not (stream is self._process.stdout and self._drain.is_alive()):
                with contextlib.suppress(OSError):
                    stream.close()
        if self._answers >= 0:
            os.close(self._answers)
            self._answers = -1

    def _send(self, message: Message) -> None:
        assert self._process.stdin is not None
        line = json.dumps(message).encode() + b"\n"
        if self._process.stdin.closed:  # killed earlier, for a bad answer or for none
            raise self._ended()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def _receive(self, watch: Stopwatch, timeout_s: float, granted: Callable[[], float]) -> Message:
        while b"\n" not in self._pending:
            left = timeout_s + granted() - watch.seconds()
            ready = select.select([self._answers], [], [], max(0.0, min(left, 0.25)))[0]
            if self._flooded:
                self.kill()
                raise OutputFlood(f"printed more than {self._limits.output_bytes >> 20} MB and was stopped")
            if ready:
                chunk = os.read(self._answers, 1 << 16)
                if not chunk:
                    raise self._ended()
                self._pending += chunk
                if len(self._pending) > MAX_LINE:
                    self.kill()
                    raise OutputFlood(f"answered with a line of more than {MAX_LINE >> 20} MB")
            elif left <= 0:
                self.kill()
                raise TimedOut(f"no answer within {timeout_s:g} s")
        line, _, rest = bytes(self._pending).partition(b"\n")
        self._pending = bytearray(rest)
        try:
            message = messages.plain(line)
        except messages.Malformed:
            message = None
        if not isinstance(message, dict):
            self.kill()
            raise ChildFault("answered with something that is not a message")
        return message

    def _ended(self) -> Exception:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.kill()
            return ChildFault("closed its answering pipe and went on running")
        # The last output may tell why the child ended. The wait is brief, as a process that the child started
        # may hold the pipe open.
        self._drain.join(timeout=LAST_WORDS_S)
        if isinstance(self._process, Handed) and self._process.is_lost:
            return defect("the server of processes", "it ended before a process of its own")
        if self._flooded:
            return OutputFlood(f"printed more than {self._limits.output_bytes >> 20} MB and was stopped")
        if self._boxed and code in RESERVED:
            return self._overrun(code)
        # The keeper reports a signal as 128 + its number.
        number = -code if code < 0 else code - 128
        if number in signal.valid_signals() and number > 0:
            return Gone(f"was ended by signal {signal.Signals(number).name}", code)
        return Gone(f"exited with code {code} before it answered", code)

    def _overrun(self, code: int) -> Exception:
        if code == SETUP_FAILED:
            return EnvironmentFault(f"the sandbox could not be set up: {self.log.strip()[-500:]}")
        words = {
            MEMORY_EXCEEDED: f"took more than {(self._limits.memory_bytes or 0) >> 20} MB of memory",
            DISK_EXCEEDED: f"filled its folder with more than {(self._limits.disk_bytes or 0) >> 20} MB",
            PROCESSES_EXCEEDED: f"had more than {self._limits.processes} processes",
        }
        return Overrun(f"{words[code]} and was stopped")

    def _read_log(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        while chunk := os.read(stream.fileno(), 1 << 16):
            self._printed += len(chunk)
            self._kept += chunk
            del self._kept[: -self._limits.kept_bytes]
            if self._printed > self._limits.output_bytes:
                self._flooded = True
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGTERM if self._boxed else signal.SIGKILL)
                return


def end_all(*children: Child) -> None:
    """Kill the children in parallel, since each takes a while to release GPU memory."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(Child.kill, children))
