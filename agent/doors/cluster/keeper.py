"""Ray actor that keeps the judges of one GPU, or of one machine's processors, in separate processes.

A judge's process gets only what `config.child_environment` lets through, however the machine's Ray was
started. It ends with this actor, because its input closes. After a fault that is not the candidate's, the
next order gets a new process, which first reports if it can judge.
"""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue

from pydantic import ValidationError

from agent import config, sandbox
from agent.api.service import Answer
from agent.doors.cluster.messages import Hello, Reply
from agent.errors import AgentError, EnvironmentFault

COMMAND = (sys.executable, "-m", "agent.doors.cluster.judge")
GRACE_S = 20.0
"""Seconds for a process to end after its input has closed."""
STARTS = 3
"""Attempts to start a process that is killed before its first message. One such kill may be chance."""


class Keeper:
    """Keeper of `slots` judge processes; as many threads of Ray may call it."""

    def __init__(self, plan: str, slots: int, command: Sequence[str] = COMMAND) -> None:
        sandbox.hide()
        config.forget_secrets()
        self._plan, self._slots, self._command = plan, slots, tuple(command)
        self._places: SimpleQueue[subprocess.Popen[str] | None] = SimpleQueue()
        for _ in range(slots):
            self._places.put(None)

    def hello(self) -> str:
        """Return the Hello of the first process, which is kept for the first order."""
        process, hello = self._started()
        self._places.get()
        self._places.put(process)
        return hello.model_dump_json()

    def judge(self, order: str) -> str:
        """Return the Reply of a judge's process to an Order, both as JSON."""
        process = self._places.get()
        try:
            process, reply = self._replied(process, order)
        except Exception as error:  # noqa: BLE001 - whatever it is, the place is given back
            process, reply = None, Reply(died=f"{type(error).__name__}: {error}")
        self._places.put(process)
        return reply.model_dump_json()

    def close(self) -> None:
        """End the processes, each after its current answer. Ray ends this actor without calling it."""
        for _ in range(self._slots):
            if (process := self._places.get()) is not None:
                _ended(process)

    def _replied(
        self, process: "subprocess.Popen[str] | None", order: str
    ) -> "tuple[subprocess.Popen[str] | None, Reply]":
        if process is not None and process.poll() is not None:
            _ended(process)
            process = None
        if process is None:
            process, hello = self._started()
            if process is None:
                return None, Reply(unfit=hello.unfit)
        try:
            answer = Answer.model_validate_json(_asked(process, order))
        except (OSError, ValidationError):
            return None, Reply(died=f"its process ended with code {_ended(process)}")
        if answer.fault is not None and answer.fault.exit_code == EnvironmentFault.exit_code:
            _ended(process)
            process = None
        return process, Reply(answer=answer)

    def _started(self) -> "tuple[subprocess.Popen[str] | None, Hello]":
        """Start a process and return it with its Hello; no process if it cannot judge."""
        for _ in range(STARTS):
            try:
                process = self._opened()
            except (AgentError, OSError) as error:
                return None, Hello(unfit=str(error))
            try:
                hello = Hello.model_validate_json(_asked(process, self._plan))
            except (OSError, ValidationError):
                code = _ended(process)
                hello = Hello(unfit=f"its process ended with code {code} before it could judge")
                if code >= 0:
                    break
            else:
                if not hello.unfit:
                    return process, hello
                _ended(process)
                break
        return None, hello

    def _opened(self) -> "subprocess.Popen[str]":
        environment = config.child_environment()
        # Use the machine's own cache, wherever its settings put it; other settings come with the plan.
        cache = config.load({}, offline=True).settings.cache_dir
        environment |= {"AGENT_CACHE_DIR": str(cache), "PYTHONPATH": config.with_package(environment)}
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=environment,
        )  # fmt: skip


def _asked(process: "subprocess.Popen[str]", text: str) -> str:
    """Send a line and return the answer; an empty string if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()
    return process.stdout.readline()


def _ended(process: "subprocess.Popen[str]") -> int:
    """Close the input, kill the process if it does not end in time, and return its exit status."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
    process.stdout.close()
    return process.wait()
