"""A child process, the conversation with it, and its certain end."""

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
"""So long what an ended child printed is waited for."""


class ChildFault(Exception):
    """The child did not answer as agreed; the message says how."""


class TimedOut(ChildFault):
    """No answer within the limit; the child has been killed.

    For a child in a box seconds count in which it ran or waited, see `Stopwatch`; else those of the clock.
    """


class Gone(ChildFault):
    """The child ended without an answer."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Overrun(ChildFault):
    """The child took more than it may and has been killed; the message says of what."""


class OutputFlood(ChildFault):
    """The child printed more than its limit and has been killed."""


class Child:
    """One process that answers JSON lines; use as a context manager.

    With a `box` it runs there and nothing it starts outlives it; without one it is trusted, and runs where
    its parent does. `argv` receives the number of the answering descriptor as its last argument; the
    descriptors that are `passed` are inherited as well. No child outlives its parent.
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
        """`server`: hands the process out instead, where the box's isolation can be entered after a fork."""
        self._limits = limits or Limits()
        self._boxed = box is not None
        # A sandbox is ended by its keeper, which has to be asked.
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
        """The end of what the child printed."""
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
        """Sends one command and waits for its answer.

        A message of the child that has a `request` is a question of its own, answered by `serve`;
        the time that takes does not count against the child, and neither do the seconds that `granted`
        gives at any time. `afresh`: after each of them the whole limit is left, for a child that is trusted.
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
        """Tells the child that no more commands come, waits for its end, and gives what it printed."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=timeout_s)
        self.kill()
        return self.log

    def kill(self) -> None:
        """Ends the child and everything it started; safe to repeat."""
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
        if self._process.stdin.closed:  # it was ended, for one of its answers or for having none
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
        # Its last words say why; whoever it has left behind may hold the pipe open for longer.
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
    """Ends them beside each other: what one has of a GPU's memory takes a while to give back."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(Child.kill, children))
