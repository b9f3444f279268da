"""Run compilers on untrusted code in a sandbox, and read their messages.

Time, memory, processes and file size are limited. Processes that a compiler starts end with its command. If
the sandbox is a plain process, an #include can read any file, so callers refuse includes by path first.
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from agent import sandbox
from agent.errors import EnvironmentFault

_LIMITS = sandbox.Limits(
    file_bytes=1 << 30, memory_bytes=8 << 30, disk_bytes=4 << 30, processes=256, cpu_s=1200,
    address_bytes=6 << 30,
)  # fmt: skip
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
    """Error or warning of a compiler, with its notes."""

    severity: str
    file: str
    line: int
    text: str
    context: tuple[tuple[str, int], ...] = ()
    """Files and lines that required the enclosing template, innermost first."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """File and text of each note."""


@dataclass(frozen=True)
class Outcome:
    """Result of one command. `failure` is `timeout` or `crash` if there are no usable messages, else None."""

    succeeded: bool
    messages: str
    failure: str | None = None


def run(
    commands: list[list[str]], directory: Path, timeout_s: float, sees: tuple[Path, ...]
) -> list[Outcome]:
    """Run all commands at once, with one deadline, and return their outcomes in order.

    The commands can write to `directory` only. They see the system's programs and headers, the installation
    of each compiler, and the paths in `sees`.
    """
    homes = {Path(command[0]).resolve().parents[1] for command in commands}
    box = sandbox.Box(directory, sees=(*sees, *sorted(homes)))
    with contextlib.ExitStack() as open_files:
        started = time.monotonic()
        running = []
        try:
            for command in commands:
                output = open_files.enter_context(tempfile.TemporaryFile())
                running.append((_start(command, box, output), output))
            return [_finish(process, output, started + timeout_s) for process, output in running]
        finally:
            for process, _ in running:
                _kill(process)


def _start(command: list[str], box: sandbox.Box, output: IO[bytes]) -> subprocess.Popen[bytes]:
    environment = _ENVIRONMENT | {"TMPDIR": str(box.folder)}
    return subprocess.Popen(
        sandbox.enclosed(command, box, _LIMITS),
        cwd=box.folder,
        env=sandbox.surroundings(environment, box),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _finish(process: subprocess.Popen[bytes], output: IO[bytes], deadline: float) -> Outcome:
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return Outcome(False, "", "timeout")
    output.seek(0)
    text = output.read(_MESSAGES_BYTES).decode("utf-8", "replace")
    if code == sandbox.SETUP_FAILED:
        raise EnvironmentFault(f"the compiler's sandbox could not be set up: {text.strip()[-500:]}")
    crashed = code != 0 and not re.search(r"\berror\b|undefined reference|multiple definition", text)
    return Outcome(code == 0, text, "crash" if crashed else None)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()  # the sandbox's keeper then ends all processes in the sandbox
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def take(made: Path, place: Path) -> Path:
    """Copy a compiler's output file to `place`, a path in a directory of the judge.

    Raises OSError if the output is not a regular file, because a subverted compiler may leave a link.
    """
    descriptor = os.open(made, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as source:  # noqa: PTH123 - a descriptor, not a path
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{made.name} is no plain file")
        written = place.with_suffix(".new")
        with written.open("wb") as target:
            shutil.copyfileobj(source, target)
    return written.rename(place)


def parse(text: str) -> list[Message]:
    """Return the errors and warnings in g++'s output, in order."""
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
