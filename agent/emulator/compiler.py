"""Runs g++ on code that is not trusted, under limits, and reads its messages.

The limits are of time (the whole process group is killed), memory and file size. g++ still reads any
file that an #include names: callers refuse such includes before.
"""

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

_MEMORY_KIB = 6 * 2**20
_FILE_BLOCKS = 2 * 2**20  # of 512 bytes
_MESSAGES_BYTES = 400_000

_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
_MESSAGE = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?P<kind>fatal error|error|warning|note): (?P<text>.*)$"
)
_CONTEXT = re.compile(
    r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)?\s+(?:recursively )?required (?:from|by|for)"
)


@dataclass(frozen=True)
class Message:
    """One error or warning with the notes that follow it."""

    severity: str
    file: str
    line: int
    text: str
    context: tuple[tuple[str, int], ...] = ()
    """Where the template that it is in was asked for, innermost first."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """(file, text) of each note."""


@dataclass(frozen=True)
class Outcome:
    """What one command did. `failure` says why it has no usable messages: `timeout`, `crash` or None."""

    succeeded: bool
    messages: str
    failure: str | None = None


def run(commands: list[list[str]], directory: Path, timeout_s: float) -> list[Outcome]:
    """Runs all commands at the same time in `directory`; one deadline holds for all."""
    deadline = time.monotonic() + timeout_s
    running = [_start(command, directory, number) for number, command in enumerate(commands)]
    try:
        return [_finish(process, path, deadline) for process, path in running]
    finally:
        for process, _ in running:
            _kill(process)


def _start(command: list[str], directory: Path, number: int) -> tuple[subprocess.Popen[bytes], Path]:
    # The shell sets the limits: doing it between fork and exec is not safe where there are threads.
    limits = f'ulimit -v {_MEMORY_KIB}; ulimit -f {_FILE_BLOCKS}; ulimit -c 0; exec "$@"'
    path = directory / f"messages-{number}"
    with path.open("wb") as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", limits, "sh", *command],
            cwd=directory,
            env=_ENVIRONMENT | {"TMPDIR": str(directory)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return process, path


def _finish(process: subprocess.Popen[bytes], path: Path, deadline: float) -> Outcome:
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Outcome(False, "", "timeout")
    with path.open("rb") as written:
        text = written.read(_MESSAGES_BYTES).decode("utf-8", "replace")
    crashed = code != 0 and not re.search(r"\berror\b|undefined reference|multiple definition", text)
    return Outcome(code == 0, text, "crash" if crashed else None)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def parse(text: str) -> list[Message]:
    """Errors and warnings in the order g++ gave them."""
    found: list[Message] = []
    context: list[tuple[str, int]] = []
    for line in text.splitlines():
        asked = _CONTEXT.match(line)
        if asked:
            context.append((asked["file"], int(asked["line"])))
            continue
        message = _MESSAGE.match(line)
        if message is None:
            continue
        if message["kind"] == "note":
            if found:
                found[-1].notes.append((message["file"], message["text"].strip()))
            continue
        severity = "warning" if message["kind"] == "warning" else "error"
        found.append(
            Message(severity, message["file"], int(message["line"]), message["text"], tuple(context))
        )
        context = []
    return found
