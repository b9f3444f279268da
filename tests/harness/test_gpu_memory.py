"""Memory of a GPU is reserved before it is used; a trial waits for it, and is tried again with all of it."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.errors import OutOfMemory
from agent.harness.backends import gpu_memory
from agent.harness.backends.gpu_memory import Reservations, Room
from agent.records import Operation, TensorSpec, Trace

LIMIT_S = 30.0
HOLDER = """
import sys, time
from pathlib import Path
from agent.harness.backends.gpu_memory import Reservations
with Reservations(Path(sys.argv[1]), 1000, lambda what: None).held(900):
    print("held", flush=True)
    time.sleep(600)
"""


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape=shape, dtype="float32")


def trace(rows: int, columns: int) -> Trace:
    tensor = spec(rows, columns)
    operation = Operation(
        op="relu", overload="aten.relu.default", inputs=(tensor,), outputs=(tensor,), attributes={}, flops=0,
        bytes=0,
    )  # fmt: skip
    return Trace(
        operations=(operation,), inputs=(tensor,), init_inputs=(), outputs=(tensor,), state=(), flops=0,
        min_bytes=2 * tensor.bytes,
    )  # fmt: skip


def test_reservations_that_fit_are_held_side_by_side(tmp_path: Path) -> None:
    one, other = (Reservations(tmp_path, 1000, lambda what: None) for _ in range(2))
    with one.held(400), other.held(500):
        assert one.others() == 900
    assert one.others() == 0


def test_whoever_does_not_fit_waits_and_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    order: list[str] = []
    waits = threading.Event()

    def announce(what: str) -> None:
        said.append(what)
        waits.set()

    def wait() -> None:
        with Reservations(tmp_path, 1000, announce).held(500):
            order.append("second")

    with Reservations(tmp_path, 1000, lambda what: None).held(600):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waits.wait(LIMIT_S)
        order.append("first")
    thread.join(LIMIT_S)
    assert order == ["first", "second"]
    assert said[0] == "waiting for memory of the GPU"


def test_what_a_killed_process_held_is_free(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        mine = Reservations(tmp_path, 1000, lambda what: None)
        assert mine.others() == 900
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with mine.held(900):
            pass


def test_a_trial_that_runs_out_is_tried_once_more_with_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_memory, "total_bytes", lambda: 200 << 30)
    asked: list[bool] = []
    room = Room(tmp_path, trace(4, 4), lambda what: None)
    assert room.is_small

    def judge() -> str:
        asked.append(room.is_whole)
        with room.held():
            if not room.is_whole:
                raise OutOfMemory("too little")
            return "a verdict"

    assert gpu_memory.tried(room, judge, lambda what: None) == "a verdict"
    assert asked == [False, True]


def test_a_trial_that_runs_out_with_everything_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_memory, "total_bytes", lambda: 4 << 30)
    room = Room(tmp_path, trace(4096, 393216), lambda what: None)
    assert room.is_whole
    assert not room.is_small

    def judge() -> None:
        raise OutOfMemory("too little")

    with pytest.raises(OutOfMemory):
        gpu_memory.tried(room, judge, lambda what: None)


def test_without_a_gpu_nothing_is_reserved() -> None:
    room = Room(None, trace(4, 4), lambda what: None)
    with room.held():
        assert room.is_whole


def test_an_elementwise_problem_of_gigabytes_fits_80_gb() -> None:
    """KernelBench 1/20: 4096 x 393216 numbers in, as many out."""
    assert gpu_memory.needed(trace(4096, 393216)) < 100 << 30
    assert gpu_memory.needed(trace(64, 64)) < 4 << 30


def test_an_older_look_is_served_first(tmp_path: Path) -> None:
    now = time.monotonic_ns()
    order: list[str] = []
    started = [threading.Event(), threading.Event()]

    def wait(name: str, begun_ns: int, event: threading.Event) -> None:
        with Reservations(tmp_path, 1000, lambda what: event.set(), begun_ns).held(900):
            order.append(name)

    with Reservations(tmp_path, 1000, lambda what: None).held(900):
        threads = []
        for number, (name, begun) in enumerate((("first", now), ("second", now + 1))):
            thread = threading.Thread(target=wait, args=(name, begun, started[number]))
            thread.start()
            threads.append(thread)
            assert started[number].wait(LIMIT_S)
    for thread in threads:
        thread.join(LIMIT_S)
    assert order == ["first", "second"]
