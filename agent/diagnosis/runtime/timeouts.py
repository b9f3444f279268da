"""Explanation of a timeout: the kernel that was running, and the line of the candidate's Python.

Both are claims of the candidate's own process. The emulator's runtime writes down the running kernel, and the
worker has Python print its position shortly before the limit.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from agent.records import Finding, Location
from agent.torch_shim.c_abi import RUNNING_BYTES, UNLOCATED_LINE

RUNNING = "running"
"""Name of the file that holds the line and the name of the running kernel."""
_FRAME = re.compile(r'File "[^"]*candidate\.py", line (\d{1,9}) in')


class LastWords(NamedTuple):
    """Log and position left by a process that was ended."""

    log: str
    kernel: str | None
    kernel_line: int | None
    source: str


def last_words(folder: Path, log: str, source: str) -> LastWords:
    """Read the last words from the log and the workspace; a malformed file is ignored."""
    claim = b""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder / RUNNING, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            claim = os.read(descriptor, RUNNING_BYTES)
        finally:
            os.close(descriptor)
    told = re.match(r"(\d{1,9}) ([\w:<>, ]{1,200})", claim.partition(b"\0")[0].decode("utf-8", "replace"))
    if told is None:
        return LastWords(log, None, None, source)
    line = int(told[1])
    return LastWords(log, told[2], line if 0 < line < UNLOCATED_LINE else None, source)


def finding(fault: str, said: LastWords) -> Finding:
    """Return the finding; `fault` is the judge's view: `no answer within 120 s while running forward`."""
    frames = _FRAME.findall(said.log)
    line = said.kernel_line or (int(frames[0]) if frames else None)
    where = ""
    if said.kernel:
        launched = f", launched at line {said.kernel_line}," if said.kernel_line else ""
        where = f" Kernel `{said.kernel}`{launched} was running."
    elif line:
        where = f" It stood at line {line}."
    message = f"The candidate gave {fault}: an endless loop, a deadlock, or far too slow.{where}"
    rows = said.source.splitlines()
    text = rows[line - 1].strip() if line and line <= len(rows) else None
    location = Location(line=line, text=text, kernel=said.kernel) if line or said.kernel else None
    return Finding(kind="timeout", message=message, location=location, evidence=said.log[-2_000:] or None)
