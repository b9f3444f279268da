"""What fresh memory holds and how threads are ordered is up to the draw; the switches are the judge's."""

import ctypes
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from device_library import DEVICE, Device, build_runtime

from agent.harness.task.conditions import Dealer
from agent.torch_shim import c_abi

MEMORY = (c_abi.MEMORY_ONES, c_abi.MEMORY_HUGE, c_abi.MEMORY_HUGE_NEGATIVE, c_abi.MEMORY_LEAST)
ORDERS = (
    c_abi.ORDER_FORWARD, c_abi.ORDER_REVERSE, c_abi.ORDER_SHUFFLED, c_abi.ORDER_INTERLEAVED,
)  # fmt: skip


@pytest.fixture(scope="module")
def built() -> Device:
    return Device(DEVICE / "draws.cu", checked=True)


@pytest.fixture
def device(built: Device) -> Iterator[Device]:
    built.reset()
    yield built
    built.runtime.kw_check(0)
    built.runtime.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, 0)


@pytest.mark.parametrize(
    ("function", "dtype", "reduce"),
    [("run_most", "int32", np.max), ("run_least", "uint32", np.min)],
)
def test_no_atomic_hides_that_memory_was_never_set(
    device: Device, function: str, dtype: str, reduce: object
) -> None:
    values = np.arange(100, 132)
    x = device.array(values, dtype)
    right = []
    for memory in MEMORY:
        device.runtime.kw_draw(memory, c_abi.ORDER_FORWARD, 7)
        best = device.empty(1, dtype)
        device.call(function, x, best)
        right.append(int(best[0]) == reduce(values))  # type: ignore[operator]
    assert True in right
    assert False in right


def test_fmaxf_does_not_hide_that_memory_was_never_set(device: Device) -> None:
    x = device.array(np.linspace(-1, 1, 32))
    right = {}
    for memory in MEMORY:
        device.runtime.kw_draw(memory, c_abi.ORDER_FORWARD, 7)
        best = device.empty(32)
        device.call("run_largest", x, best)
        right[memory] = bool(np.array_equal(best, x))
    assert right[c_abi.MEMORY_ONES]
    assert not right[c_abi.MEMORY_HUGE]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_huge_memory_is_huge_and_finite_in_every_format(device: Device, dtype: str) -> None:
    for seed, sign in itertools.product(range(20), (1, -1)):
        memory = c_abi.MEMORY_HUGE if sign > 0 else c_abi.MEMORY_HUGE_NEGATIVE
        device.runtime.kw_draw(memory, c_abi.ORDER_FORWARD, seed)
        values = device.empty(9, dtype) * np.dtype(dtype).type(sign)
        assert np.isfinite(values).all()
        assert (values > 1e3).all()


def test_used_memory_keeps_its_contents_and_other_memory_does_not(device: Device) -> None:
    for memory, kept in ((c_abi.MEMORY_USED, True), (c_abi.MEMORY_HUGE, False)):
        device.runtime.kw_draw(memory, c_abi.ORDER_FORWARD, 1)
        for size in (777_216, 12_288):
            first = device.runtime.kw_alloc(size)
            ctypes.memset(first, 42, size)
            device.runtime.kw_free(first)
            second = device.runtime.kw_alloc(size)
            assert second == first
            assert (ctypes.string_at(second, size) == b"\x2a" * size) is kept


@pytest.mark.parametrize("memory", MEMORY)
def test_unwritten_elements_are_found_whatever_memory_holds(device: Device, memory: int) -> None:
    device.runtime.kw_draw(memory, c_abi.ORDER_FORWARD, 3)
    device.runtime.kw_check(1)
    out = device.empty(50)
    out[:20] = 1
    first = ctypes.c_size_t()
    assert device.runtime.kw_unwritten(out.ctypes.data, 50, 4, ctypes.byref(first)) == 30
    assert first.value == 20


def test_updates_without_atomics_are_lost_where_threads_interleave(device: Device) -> None:
    seen = {}
    for order in ORDERS:
        device.runtime.kw_draw(c_abi.MEMORY_ONES, order, 5)
        out = device.array([0], "int32")
        device.call("run_count", out)
        seen[order] = int(out[0])
    assert seen[c_abi.ORDER_FORWARD] == 4 * 64
    assert seen[c_abi.ORDER_INTERLEAVED] < 4 * 64


def test_a_store_that_hangs_on_an_older_look_is_late_where_threads_interleave(device: Device) -> None:
    x = np.arange(64, dtype="float32")
    found = []
    for seed in range(8):
        device.runtime.kw_draw(c_abi.MEMORY_ONES, c_abi.ORDER_INTERLEAVED, seed)
        best = device.array([-1])
        device.call("run_look_and_store", device.array(x), best)
        found.append(float(best[0]))
    assert sum(value == x.max() for value in found) < 4


def test_a_missing_barrier_on_global_memory_shows_in_reverse(device: Device) -> None:
    x = np.arange(64, dtype="float32")
    results = {}
    for order in (c_abi.ORDER_FORWARD, c_abi.ORDER_REVERSE):
        device.runtime.kw_draw(c_abi.MEMORY_ONES, order, 5)
        out = device.empty(64)
        device.call("run_neighbour", device.array(x), device.empty(64), out)
        results[order] = bool(np.array_equal(out, x[np.arange(64) // 2]))
    assert results == {c_abi.ORDER_FORWARD: True, c_abi.ORDER_REVERSE: False}


@pytest.mark.parametrize("checked", [0, 1])
@pytest.mark.parametrize("order", ORDERS)
def test_right_kernels_are_right_in_every_order(device: Device, order: int, checked: int) -> None:
    x = np.arange(40 * 64, dtype="float32") % 17
    for seed in range(3):
        device.runtime.kw_draw(c_abi.MEMORY_HUGE, order, seed)
        device.runtime.kw_check(checked)
        out = device.empty(41)
        device.call("run_right_sums", device.array(x), out, device.array([0], "int32"))
        assert np.array_equal(out[1:], x.reshape(40, 64).sum(1))
        assert out[0] == x.sum()
    assert [found for found in device.findings() if found["severity"] == "error"] == []


_LOCKED = """
import ctypes, json, sys
runtime = ctypes.CDLL(sys.argv[1])
key = ctypes.c_uint64(5)
def found():
    needed = runtime.kw_findings(None, 0)
    text = ctypes.create_string_buffer(needed + 1)
    runtime.kw_findings(text, needed + 1)
    return [finding["message"].split(" used ")[1].split(",")[0] for finding in json.loads(text.value)]
runtime.kw_lock(key)
runtime.kw_unlock(key); runtime.kw_check(1); runtime.kw_lock(key)
before = found()
exec(sys.argv[2])
is_on = ctypes.c_int.in_dll(runtime, "kw_checking").value
runtime.kw_unlock(key); runtime.kw_clear_findings(); runtime.kw_lock(key)
print(json.dumps([before, found(), is_on, NAMES]))
"""


@pytest.mark.parametrize(
    "attempt",
    [
        "runtime.kw_check(0)", "runtime.kw_clear_findings()", "runtime.kw_draw(0, 0, 0)",
        "runtime.kw_note_writers(1)",
        "runtime.kw_sample(1)",
        "runtime.kw_record(0)", "runtime.kw_record_note(b'x')", "runtime.kw_host_returned()",
        "runtime.kw_lock(ctypes.c_uint64(6))", "runtime.kw_unlock(ctypes.c_uint64(6))", "runtime.kw_init(1)",
        "runtime.kw_tell_running(b'/nowhere')",
    ],
)  # fmt: skip
def test_a_switch_without_the_key_does_nothing_and_leaves_a_finding(attempt: str) -> None:
    program = _LOCKED.replace("exec(sys.argv[2])", "exec(sys.argv[2]); NAMES = found()")
    command = [sys.executable, "-c", program, str(build_runtime()), f"{attempt}; {attempt}"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=120, text=True)
    before, cleared, is_on, names = json.loads(done.stdout)
    assert before == []
    assert names == [attempt.split(".")[1].split("(")[0]]
    assert cleared == []
    assert is_on == 1


def test_every_kind_of_memory_and_every_order_is_dealt() -> None:
    for _ in range(20):
        dealer = Dealer()
        first, checked = dealer.deal(checked=True), dealer.deal(checked=True)
        others = [dealer.deal(checked=False) for _ in range(4)]
        assert (first.memory, first.order) == (c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD)
        assert (checked.memory, checked.order) == (c_abi.MEMORY_ONES, c_abi.ORDER_INTERLEAVED)
        assert {one.memory for one in others} == {*MEMORY[1:], c_abi.MEMORY_USED}
        assert {one.order for one in others} == {*ORDERS[1:]}
        assert {one.gradients for one in others} == {True, False}
        assert max(one.torch_threads for one in others) > first.torch_threads == 1
        assert not first.gradients
        assert len({one.seed for one in (first, checked, *others)}) == 6


def test_memory_does_not_tell_whether_a_draw_is_checked_in_secret() -> None:
    dealer = Dealer()
    dealer.deal(checked=True)
    hidden = [dealer.deal(checked=True, secret=True) for _ in range(4)]
    assert {one.memory for one in hidden} == {*MEMORY[1:], c_abi.MEMORY_USED}
    assert {one.order for one in hidden} == {c_abi.ORDER_INTERLEAVED}
