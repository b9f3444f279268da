"""Client of the process server, which imports modules once and forks processes (`enter/serve.py`)."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from agent.errors import defect
from agent.sandbox.isolation import ENTER

_LARGEST_ANSWER = 1 << 16


class Started(NamedTuple):
    """Parameters of a new process. `argv` is a Python command line that begins with the interpreter."""

    argv: list[str]
    folder: Path
    environment: Mapping[str, str]
    descriptors: tuple[int, ...]
    """Inherited descriptors besides the standard streams, which keep their numbers."""
    ending: signal.Signals
    """Signal that ends the process once its client is gone."""
    plan: dict[str, Any] | None = None
    """Isolation as returned by `isolation.plan_of`; None for a trusted process."""


class ProcessServer:
    """Client of a process server. Requests from several threads are answered one at a time.

    A server ends with the client that started it.
    """

    def __init__(self, link: socket.socket, owned: "subprocess.Popen[bytes] | None" = None,
                 printed: IO[bytes] | None = None) -> None:  # fmt: skip
        self._link, self._owned, self._printed = link, owned, printed
        self._lock = threading.Lock()

    @classmethod
    def started(
        cls, modules: Iterable[str], environment: Mapping[str, str], *, isolated: bool
    ) -> "ProcessServer":
        """Start a server that begins to import `modules`; `isolated` passes Python's option -I."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server
        # These variables keep imports from starting threads or using the GPU driver, after which a fork is
        # not safe. The forked processes get other variables.
        forkable = {
            "OPENBLAS_NUM_THREADS": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1", "CUDA_VISIBLE_DEVICES": "",
        }  # fmt: skip
        command = [sys.executable, "-I" if isolated else "-P", str(ENTER / "serve.py"), str(theirs.fileno())]
        with theirs:
            owned = subprocess.Popen(
                [*command, *modules], stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT,
                env={**environment, **forkable}, pass_fds=(theirs.fileno(),), start_new_session=True,
            )  # fmt: skip
        return cls(ours, owned, printed)

    @classmethod
    def inherited(cls, descriptor: int) -> "ProcessServer":
        """Return a client for a socket of `client` that another process passed on as `descriptor`."""
        return cls(socket.socket(fileno=descriptor))

    def client(self) -> socket.socket:
        """Return a new socket of the server, to be passed to another process as its client."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            self._send({"connect": True}, [theirs.fileno()])
        return ours

    def start(self, wanted: Started) -> "Handed":
        """Start a new process. Raises EnvironmentFault if the server cannot fork one."""
        with contextlib.ExitStack() as stack:
            commands_there, commands = _pipe(stack)
            printed, printing = _pipe(stack)
            status, status_there = _pipe(stack)
            request = {
                "argv": wanted.argv,
                "folder": str(wanted.folder.absolute()),
                "environment": dict(wanted.environment),
                "numbers": [0, 1, 2, *wanted.descriptors],
                "ending": int(wanted.ending),
                "plan": wanted.plan,
            }
            given = [status_there, commands_there, printing, printing, *wanted.descriptors]
            with self._lock:
                self._send({"fork": request}, given)
                answer, (handle,) = self._answer()
            stack.pop_all()
        for descriptor in (status_there, commands_there, printing):
            os.close(descriptor)
        return Handed(answer["pid"], handle, status, commands, printed)

    def wait(self) -> None:
        """Wait until the imports are done. Raises EnvironmentFault if the server cannot fork processes."""
        with self._lock:
            self._send({"wait": True}, [])
            self._answer()

    def end(self) -> None:
        """End the server and the processes it has forked."""
        self._link.close()
        if self._owned is not None:
            self._owned.wait()
        if self._printed is not None:
            self._printed.close()

    def _send(self, message: dict[str, Any], descriptors: list[int]) -> None:
        try:
            socket.send_fds(self._link, [json.dumps(message).encode()], descriptors)
        except OSError as error:
            raise defect("the server of processes", f"it takes no request: {error}", self._log()) from None

    def _answer(self) -> tuple[dict[str, Any], list[int]]:
        message, handles = b"", list[int]()
        with contextlib.suppress(OSError):
            message, handles, _, _ = socket.recv_fds(self._link, _LARGEST_ANSWER, 1)
        if not message:
            raise defect("the server of processes", "it has ended", self._log())
        answer = json.loads(message)
        if "unfit" in answer:
            raise defect("the server of processes", answer["unfit"])
        return answer, handles

    def _log(self) -> str:
        if self._printed is None:
            return ""
        self._printed.seek(0)
        return self._printed.read().decode("utf-8", "replace")[-8_000:]


class Handed:
    """Process forked by a server, with the interface of subprocess.Popen that `Child` needs."""

    def __init__(self, pid: int, handle: int, status: int, commands: int, printed: int) -> None:
        self.pid = pid
        self.stdin = os.fdopen(commands, "wb")
        self.stdout = os.fdopen(printed, "rb", buffering=0)
        self._handle, self._status = handle, status
        self._code: int | None = None
        self.is_lost = False
        """True if the server ended before the process, which then ended with it."""

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end and return its exit code. Raises TimeoutExpired."""
        if self._code is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            said = os.read(self._status, 64)
            os.close(self._status)
            os.close(self._handle)
            self._code, self.is_lost = (int(said), False) if said else (-signal.SIGKILL, True)
        return self._code

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGTERM)


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    """Create a pipe that is closed when the stack is unwound."""
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends
