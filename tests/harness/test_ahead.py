"""Work ahead of the turn on a GPU: only where nobody else has it, and no longer than it is of use."""

import threading
from pathlib import Path

import pytest

from agent.errors import EnvironmentFault
from agent.harness.backends.fifo_lock import FifoLock
from agent.harness.backends.gpu_lock import GpuLock
from agent.harness.trial.ahead import Ahead
from agent.sandbox import ChildFault


def lock(place: Path) -> GpuLock:
    return GpuLock(place, lambda what: pytest.fail(f"it waits: {what}"))


def test_steps_are_taken_in_order_in_a_turn_that_ends_with_them(tmp_path: Path) -> None:
    taken: list[str] = []
    last = threading.Event()

    def first() -> None:
        assert not FifoLock(tmp_path).attempt()
        taken.append("first")

    def second() -> None:
        taken.append("second")
        last.set()

    ahead = Ahead(lock(tmp_path), [first, second])
    last.wait()
    ahead.end()
    assert taken == ["first", "second"]
    with lock(tmp_path).held():
        pass


def test_nothing_is_done_beside_somebody_elses_turn(tmp_path: Path) -> None:
    taken: list[str] = []
    with lock(tmp_path).held():
        Ahead(lock(tmp_path), [lambda: taken.append("a step")]).end()
    assert taken == []


def test_no_step_begins_once_it_is_over(tmp_path: Path) -> None:
    begun, go_on, taken = threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        go_on.wait()
        taken.append("first")

    ahead = Ahead(lock(tmp_path), [first, lambda: taken.append("second")])
    begun.wait()
    ahead._over.set()
    go_on.set()
    ahead.end()
    assert taken == ["first"]


@pytest.mark.parametrize("fault", [ChildFault("is gone"), EnvironmentFault("it fails")])
def test_what_fails_ahead_ends_it_and_nothing_else(tmp_path: Path, fault: Exception) -> None:
    def failing() -> None:
        raise fault

    Ahead(lock(tmp_path), [failing, lambda: pytest.fail("a step after one that failed")]).end()
    with lock(tmp_path).held():
        pass
