"""Where a candidate was when it did not answer in time: the kernel that ran, and the line of its Python.

Both come from the candidate's own process, as claims: the emulator's runtime writes down the kernel that
runs, and the worker has Python print where it stands shortly before the limit.
"""

import contextlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from agent.records import Finding, Location
from agent.torch_shim.c_abi import RUNNING_BYTES, UNLOCATED_LINE

RUNNING = "running"
"""Name of the file that holds the line and the name of the kernel that runs."""
_FRAME = re.compile(r'File "[^"]*candidate\.py", line (\d{1,9}) in')


class LastWords(NamedTuple):
    """What is left of a process that was ended."""

    log: str
    kernel: str | None
    kernel_line: int | None
    source: str


def last_words(folder: Path, log: str, source: str) -> LastWords:
    """From the log and the workspace; a file that is not what it should be says nothing."""
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
    """`fault` is what the judge saw: `no answer within 120 s while running forward`."""
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
