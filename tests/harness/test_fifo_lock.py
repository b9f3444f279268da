"""The queue for a GPU: in the order in which work began, and nobody who has ended keeps a place.

With real processes throughout, or threads with files of their own, which exclude each other alike.

Waits have no limit of their own here: how long anything takes depends on the machine, and pytest's limit is
for what never comes.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from agent.harness.backends.fifo_lock import FifoLock, Taken

PROCESS = """
import signal, sys
from pathlib import Path
from agent.harness.backends.fifo_lock import FifoLock

def leave(*_):
    raise SystemExit(7)

signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGINT, signal.default_int_handler)
begun_ns = int(sys.argv[2]) if len(sys.argv) > 2 else None
lock = FifoLock(Path(sys.argv[1]), begun_ns)
print("started", flush=True)
lock.acquire(lambda ahead: print(ahead, "ahead", flush=True), 3600)
print("held", flush=True)
sys.stdin.readline()
lock.release()
print("released", flush=True)
sys.stdin.readline()
"""


class Process:
    """One that asks for the lock as soon as it starts, and lets go of it when it is told to."""

    def __init__(self, folder: Path, *begun_ns: int) -> None:
        command = [sys.executable, "-c", PROCESS, str(folder), *map(str, begun_ns)]
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        assert self.said() == "started"

    def said(self) -> str:
        assert self.child.stdout is not None
        return self.child.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write("\n")
        self.child.stdin.flush()

    def end(self, number: int) -> int:
        self.child.send_signal(number)
        return self.child.wait()

    def close(self) -> None:
        self.child.kill()
        with self.child:
            pass


class Queue:
    """Processes that asked one after the other, each once the one before it had its place."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack, self._asked = folder, stack, 0

    def join(self) -> Process:
        process = Process(self._folder)
        self._stack.callback(process.close)
        self._asked += 1
        expected = f"{self._asked - 1} ahead" if self._asked > 1 else "held"
        assert process.said() == expected
        return process


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with ExitStack() as stack:
        yield Queue(tmp_path, stack)


def nobody(ahead: int) -> None:
    pytest.fail(f"{ahead} ahead")


def tickets(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.replace("-", "").isdigit())


def drawn(name: str) -> int:
    """The number of a ticket."""
    return int(name.rpartition("-")[2])


def test_first_come_first_served(queue: Queue, tmp_path: Path) -> None:
    processes = [queue.join() for _ in range(4)]
    for number, process in enumerate(processes):
        process.go_on()
        assert process.said() == "released"
        behind = processes[number + 1 :]
        for ahead, waiting in enumerate(behind):
            assert waiting.said() == (f"{ahead} ahead" if ahead else "held")
    assert tickets(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_holder_that_ends_anyhow_frees_it(queue: Queue, number: int) -> None:
    holder, waiting = queue.join(), queue.join()
    assert holder.end(number) != 0
    assert waiting.said() == "held"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_waiter_that_ends_anyhow_leaves_its_place(queue: Queue, number: int) -> None:
    holder, gone, waiting = queue.join(), queue.join(), queue.join()
    assert gone.end(number) != 0
    assert waiting.said() == "1 ahead"
    holder.go_on()
    assert waiting.said() == "held"


def test_a_whole_queue_that_was_killed_is_no_queue(queue: Queue, tmp_path: Path) -> None:
    for process in [queue.join() for _ in range(3)]:
        process.end(signal.SIGKILL)
    assert len(tickets(tmp_path)) == 3
    lock = FifoLock(tmp_path)
    told: list[int] = []
    lock.acquire(told.append, 0.0)
    assert told == []
    assert len(tickets(tmp_path)) == 1
    lock.release()


def test_whoever_comes_later_is_behind_those_who_wait(queue: Queue, tmp_path: Path) -> None:
    first, second, third = queue.join(), queue.join(), queue.join()
    first.go_on()
    assert (first.said(), second.said(), third.said()) == ("released", "held", "1 ahead")
    late = FifoLock(tmp_path)
    told: list[int] = []

    def ahead(number: int) -> None:
        told.append(number)
        (second if number == 2 else third).go_on()

    late.acquire(ahead, 3600)
    assert told == [2, 1]
    late.release()


def test_work_that_began_earlier_comes_before_whoever_waits(queue: Queue, tmp_path: Path) -> None:
    """It waits for the holder all the same, and then for nobody."""
    holder, waiting = queue.join(), queue.join()
    with ExitStack() as stack:
        early = Process(tmp_path, 1)
        stack.callback(early.close)
        assert early.said() == "1 ahead"
        assert waiting.said() == "2 ahead"
        holder.go_on()
        assert (holder.said(), early.said(), waiting.said()) == ("released", "held", "1 ahead")
        early.go_on()
        assert (early.said(), waiting.said()) == ("released", "held")


def test_a_holder_that_began_later_is_waited_for_and_named(tmp_path: Path) -> None:
    holder, early = FifoLock(tmp_path), FifoLock(tmp_path, 1)
    holder.acquire(nobody, 0.0)
    told: list[int] = []
    with pytest.raises(Taken, match=f"process {os.getpid()}"):
        early.acquire(told.append, 0.1)
    assert told == [1]
    assert not early.attempt()
    holder.release()
    early.acquire(nobody, 0.0)
    assert not holder.attempt()
    early.release()
    assert tickets(tmp_path) == []


def test_only_one_has_it_whatever_order_they_come_in(tmp_path: Path) -> None:
    """Threads draw, wait, give up and hold in turns, each with another beginning each time."""
    inside, most, errors = 0, 0, []

    def work(number: int) -> None:
        nonlocal inside, most
        random = Random(number)
        for _ in range(12):
            lock = FifoLock(tmp_path, random.choice([None, 1, random.randrange(1, 1000)]))
            if random.random() < 0.3:
                if not lock.attempt():
                    continue
            else:
                lock.acquire(lambda ahead: None, 3600)
            inside += 1
            most = max(most, inside)
            if inside != 1:
                errors.append(number)
            time.sleep(0.001)
            inside -= 1
            lock.release()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert (most, errors) == (1, [])
    assert tickets(tmp_path) == []


def test_a_process_killed_while_it_drew_its_number_stops_nobody(tmp_path: Path) -> None:
    """It leaves a ticket that nobody locked, or a counter it had not written."""
    (tmp_path / f"{1:020d}-{4:020d}").touch()
    (tmp_path / "counter").touch()
    lock = FifoLock(tmp_path)
    lock.acquire(nobody, 0.0)
    assert [drawn(name) for name in tickets(tmp_path)] == [5]
    lock.release()
    (tmp_path / "counter").write_bytes(b"torn")
    lock.acquire(nobody, 0.0)
    lock.release()
    assert tickets(tmp_path) == []


def test_numbers_never_come_back(tmp_path: Path) -> None:
    lock = FifoLock(tmp_path)
    seen = []
    for _ in range(3):
        lock.acquire(nobody, 0.0)
        seen += [drawn(name) for name in tickets(tmp_path)]
        lock.release()
    assert len(set(seen)) == 3


def test_whoever_waits_too_long_learns_for_whom_and_leaves_no_ticket(queue: Queue, tmp_path: Path) -> None:
    holder = queue.join()
    with pytest.raises(Taken, match=f"process {holder.child.pid}"):
        FifoLock(tmp_path).acquire(lambda ahead: None, 0.1)
    assert len(tickets(tmp_path)) == 1


def test_an_error_on_the_way_gives_the_place_up(queue: Queue, tmp_path: Path) -> None:
    queue.join()

    def interrupted(ahead: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FifoLock(tmp_path).acquire(interrupted, 60.0)
    assert len(tickets(tmp_path)) == 1


def test_a_ticket_is_locked_for_as_long_as_it_is_held(tmp_path: Path) -> None:
    lock = FifoLock(tmp_path)
    lock.acquire(nobody, 0.0)
    assert lock.held
    with (tmp_path / tickets(tmp_path)[0]).open("rb") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    lock.release()
    lock.release()
    assert not lock.held


def test_an_attempt_succeeds_where_nobody_has_the_lock_or_waits_for_it(tmp_path: Path) -> None:
    lock, another = FifoLock(tmp_path), FifoLock(tmp_path)
    assert lock.attempt()
    assert not another.attempt()
    assert not another.held
    lock.release()
    assert another.attempt()
    another.release()


def test_an_attempt_that_fails_leaves_no_place_behind(tmp_path: Path) -> None:
    holder, attempting, later = FifoLock(tmp_path), FifoLock(tmp_path), FifoLock(tmp_path)
    holder.acquire(lambda ahead: None, 3600)
    assert not attempting.attempt()
    holder.release()
    later.acquire(lambda ahead: pytest.fail("nobody is ahead"), 3600)
    later.release()
