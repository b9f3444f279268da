"""Hostile programs in a sandbox, and what they left behind on this machine."""

import functools
import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

import pytest

from agent import config
from agent.sandbox import Box, Child, ChildFault, Level, Limits, ProcessServer, isolation, strongest

PREAMBLE = """
import json, os, sys
answers = int(sys.argv[-1])
def say(message):
    os.write(answers, json.dumps(message).encode() + b"\\n")
def tried(action):
    try:
        return action()
    except OSError as error:
        return error.strerror
"""
PYTHON = os.path.realpath(sys.executable)
PROCESS = Level("process")


ORIGIN: ContextVar[ProcessServer | None] = ContextVar("ORIGIN", default=None)
"""Where the probes' processes come from; None: each is started afresh."""
Probe = Callable[[Box, pytest.MonkeyPatch], None]
PROBES: dict[str, Probe] = {}
"""By the name of the promise that each tries to break."""


def probe(name: str) -> Callable[[Probe], Probe]:
    def kept(function: Probe) -> Probe:
        PROBES[name] = function
        return function

    return kept


@functools.cache
def possible() -> tuple[Level, ...]:
    """Every filtered level that this machine gives."""
    return tuple(level for level in isolation._levels() if level.filtered and isolation._works(level))


def levels(request: pytest.FixtureRequest) -> tuple[Level, ...]:
    """Those to test: the strongest and the weakest, or all on request."""
    return possible() if request.config.getoption("--all-kernels") else (strongest(), PROCESS)


@functools.cache
def server() -> ProcessServer:
    """Hands out processes without an import of their own."""
    return ProcessServer.started((), config.candidate_environment(), isolated=True)


def child(
    code: str, box: Box, limits: Limits | None = None, handed_out_by: ProcessServer | None = None
) -> Child:
    """A Python program in the box, with `say` and `tried` at hand."""
    argv = [PYTHON, "-I", "-c", PREAMBLE + code]
    return Child(
        argv, env=config.candidate_environment(), box=box, limits=limits,
        server=handed_out_by or ORIGIN.get(),
    )  # fmt: skip


def answer(code: str, box: Box, limits: Limits | None = None) -> dict[str, object]:
    """The first thing it says, once it is asked: one that ends before that has no answer."""
    with child("input()\n" + code, box, limits) as worker:
        try:
            return worker.ask({}, 30)
        except ChildFault as fault:
            raise AssertionError(f"{fault}; it said:\n{worker.log}") from fault


def running(marker: str) -> list[int]:
    """Processes of this machine with the marker as an argument, keepers aside."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if marker.encode() in words and not any(word.endswith(b"start.py") for word in words):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def eventually(holds: Callable[[], bool]) -> bool:
    """A process shows its command line a moment after it was started."""
    for _ in range(6000):
        if holds():
            return True
        time.sleep(0.02)
    return False
