"""Work ahead of a candidate on a GPU: beside others, in short sections, and no longer than it is of use."""

import threading
from pathlib import Path

import pytest

from agent.errors import EnvironmentFault
from agent.harness.backends.gpu_lock import GpuLock
from agent.harness.trial.ahead import Ahead
from agent.sandbox import ChildFault

LIMIT_S = 30.0


def lock(place: Path) -> GpuLock:
    return GpuLock(place, lambda what: None, limit_s=LIMIT_S)


def test_steps_are_taken_in_order_and_free_the_gpu(tmp_path: Path) -> None:
    taken: list[str] = []
    last = threading.Event()
    ahead = Ahead(lock(tmp_path), [lambda: taken.append("first"), lambda: taken.append("second"), last.set])
    assert last.wait(LIMIT_S)
    ahead.end()
    assert taken == ["first", "second"]
    with lock(tmp_path).exclusive():
        pass


def test_steps_run_beside_other_shared_sections(tmp_path: Path) -> None:
    taken = threading.Event()
    with lock(tmp_path).shared():
        ahead = Ahead(lock(tmp_path), [taken.set])
        assert taken.wait(LIMIT_S)
        ahead.end()


def test_nothing_is_done_while_somebody_times(tmp_path: Path) -> None:
    taken: list[str] = []
    with lock(tmp_path).exclusive():
        Ahead(lock(tmp_path), [lambda: taken.append("a step")]).end()
    assert taken == []


def test_no_step_begins_once_it_is_over(tmp_path: Path) -> None:
    begun, go_on, taken = threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        assert go_on.wait(LIMIT_S)
        taken.append("first")

    ahead = Ahead(lock(tmp_path), [first, lambda: taken.append("second")])
    assert begun.wait(LIMIT_S)
    ahead._over.set()
    go_on.set()
    ahead.end()
    assert taken == ["first"]


@pytest.mark.parametrize("fault", [ChildFault("is gone"), EnvironmentFault("it fails")])
def test_what_fails_ahead_ends_it_and_nothing_else(tmp_path: Path, fault: Exception) -> None:
    ended = threading.Event()

    def failing() -> None:
        ended.set()
        raise fault

    ahead = Ahead(lock(tmp_path), [failing, lambda: pytest.fail("a step after one that failed")])
    assert ended.wait(LIMIT_S)
    ahead.end()
    with lock(tmp_path).exclusive():
        pass
