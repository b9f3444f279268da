"""What counts against a limit, by the kernel's account of real processes and by accounts made up here."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from agent.sandbox import stopwatch
from agent.sandbox.stopwatch import LEAST, Stopwatch


class Machine:
    """A clock and the kernel's account of a child, in the place of the real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.account: tuple[float | None, bool] = (0.0, False)
        monkeypatch.setattr("agent.sandbox.stopwatch.time.monotonic", lambda: self.now)
        monkeypatch.setattr(stopwatch, "_account", lambda root: self.account)

    def goes_on(self, seconds: float, used_s: float, ready: bool) -> None:
        self.now += seconds
        self.account = ((self.account[0] or 0.0) + used_s, ready)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def begun(machine: Machine) -> Stopwatch:
    """One whose account has been read once."""
    watch = Stopwatch(1)
    machine.goes_on(0.25, 0.0, True)
    assert watch.seconds() == pytest.approx(0.25)
    return watch


def test_a_starved_child_is_charged_for_what_it_ran(machine: Machine) -> None:
    watch = begun(machine)
    machine.goes_on(4.0, 1.0, True)
    assert watch.seconds() == pytest.approx(1.25)


def test_computing_and_waiting_count_in_full(machine: Machine) -> None:
    watch = begun(machine)
    machine.goes_on(2.0, 2.0, True)
    assert watch.seconds() == pytest.approx(2.25)
    machine.goes_on(3.0, 0.0, False)
    assert watch.seconds() == pytest.approx(5.25)


def test_several_threads_are_not_charged_beyond_the_clock(machine: Machine) -> None:
    watch = begun(machine)
    machine.goes_on(2.0, 8.0, True)
    assert watch.seconds() == pytest.approx(2.25)


def test_a_tenth_counts_in_any_case(machine: Machine) -> None:
    watch = begun(machine)
    machine.goes_on(10.0, 0.0, True)
    assert watch.seconds() == pytest.approx(0.25 + LEAST * 10.0)


def test_an_account_that_cannot_be_read_leaves_the_clock(machine: Machine) -> None:
    watch = begun(machine)
    machine.now, machine.account = machine.now + 5.0, (None, True)
    assert watch.seconds() == pytest.approx(5.25)


def test_short_questions_in_a_row_count_in_full(machine: Machine) -> None:
    """A child that asks for something all the time does not slip through between two looks."""
    watch = begun(machine)
    for _ in range(100):
        machine.goes_on(0.01, 0.0, True)
        watch.seconds()
    assert watch.seconds() == pytest.approx(1.25)


def test_what_is_skipped_does_not_count(machine: Machine) -> None:
    watch = begun(machine)
    machine.goes_on(50.0, 50.0, True)
    watch.skip()
    machine.goes_on(1.0, 1.0, True)
    assert watch.seconds() == pytest.approx(1.25)


def test_a_trusted_child_has_a_plain_clock(machine: Machine) -> None:
    watch = Stopwatch(None)
    machine.goes_on(7.0, 0.0, True)
    assert watch.seconds() == pytest.approx(7.0)


SPAWNS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
sys.stdin.readline()
"""
COMPUTES = "print(flush=True)\nwhile True: pass"
WAITS = "print(flush=True)\nimport time; time.sleep(600)"


@pytest.fixture
def parent(request: pytest.FixtureRequest) -> Iterator[int]:
    """A process whose only child does what is asked for."""
    command = [sys.executable, "-c", SPAWNS, request.param]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, 9)


@pytest.mark.parametrize("parent", [COMPUTES], indirect=True)
def test_the_kernel_says_that_a_descendant_computes(parent: int) -> None:
    used, ready = stopwatch._account(parent)
    assert ready
    assert used is not None
    while (stopwatch._account(parent)[0] or 0.0) <= used:
        pass


@pytest.mark.parametrize("parent", [WAITS], indirect=True)
def test_the_kernel_says_that_a_descendant_waits(parent: int) -> None:
    while stopwatch._account(parent)[1]:
        pass  # it is on its way to sleep
    assert stopwatch._account(parent)[0] is not None


def test_a_process_that_is_gone_has_no_account() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        assert stopwatch._account(process.pid) == (None, False)
