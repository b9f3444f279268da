"""Blocks and threads that wait for each other: they meet, or it is said that they never will."""

from collections.abc import Iterator

import numpy as np
import pytest
from device_library import DEVICE, Device

from agent.torch_shim import c_abi


@pytest.fixture(scope="module")
def built() -> Device:
    return Device(DEVICE / "waiting.cu", checked=True)


@pytest.fixture(params=[1, 2, 4], ids=lambda workers: f"{workers} OS threads")
def device(built: Device, request: pytest.FixtureRequest) -> Iterator[Device]:
    built.reset()
    built.runtime.kw_init(request.param)
    yield built
    built.runtime.kw_init(2)
    built.reset()


def clean(device: Device) -> bool:
    return device.findings() == [] and device.runtime.cudaGetLastError() == 0


@pytest.mark.parametrize(
    ("blocks", "threads", "rounds"), [(7, 64, 9), (132, 256, 3), (300, 32, 2), (24, 1024, 2), (264, 1024, 1)]
)
def test_a_barrier_among_blocks(device: Device, blocks: int, threads: int, rounds: int) -> None:
    cells = device.array(np.zeros(2 * blocks))
    device.call("run_rounds", cells, blocks, threads, rounds)
    assert clean(device)
    assert (cells[rounds % 2 * blocks :][:blocks] == rounds).all()


@pytest.mark.parametrize(("threads", "blocks"), [(1024, 264), (256, 1056)])
def test_a_barrier_of_a_cooperative_grid_that_fills_the_device(
    device: Device, threads: int, blocks: int
) -> None:
    cells = device.array(np.zeros(2 + blocks), "uint32")
    assert device.call("run_agree", cells, threads) == blocks
    assert clean(device)
    assert cells[:2].tolist() == [blocks * (blocks + 1) // 2, blocks]
    assert not cells[2:].any()


def test_each_block_waits_for_the_next(device: Device) -> None:
    order = device.empty(150, "int32")
    device.call("run_backwards", order, 150)
    assert clean(device)
    assert order.tolist() == list(range(149, -1, -1))


def test_all_threads_of_all_blocks_wait_for_the_last_block(device: Device) -> None:
    seen = device.empty(96 * 50, "int32")
    device.call("run_everyone", seen, 50)
    assert clean(device)
    assert (seen == 7).all()


def test_warps_wait_for_a_warp_of_their_block(device: Device) -> None:
    y = device.array(np.zeros(96))
    device.call("run_stages", y)
    assert (y == 3).all()
    assert device.runtime.cudaGetLastError() == 0
    assert [found for found in device.findings() if found["severity"] == "error"] == []


def test_the_first_thread_waits_for_the_last_one(device: Device) -> None:
    seen = device.empty(200, "int32")
    device.call("run_last_first", seen)
    assert clean(device)
    assert (seen == 5).all()


def test_a_lock_that_every_block_takes(device: Device) -> None:
    x, total = device.array(np.arange(500)), device.array(np.zeros(1))
    device.call("run_lock", x, total, 500)
    assert clean(device)
    assert total[0] == 499 * 250


@pytest.mark.parametrize("blocks", [2, 20, 64])
def test_one_thread_asks_several_places_in_turn(device: Device, blocks: int) -> None:
    seen = device.array(np.zeros(blocks), "int32")
    device.call("run_asks_all", seen, blocks)
    assert clean(device)
    assert seen.tolist() == list(range(blocks))


@pytest.mark.parametrize(
    ("function", "marker"),
    [
        ("fault_too_few", "one_too_few"),
        ("fault_compare", "compare_and_wait"),
        ("fault_several", "one_never_comes"),
    ],
)
def test_waiting_in_vain_ends(device: Device, function: str, marker: str) -> None:
    device.call(function, device.empty(1))
    [finding] = device.findings()
    assert (finding["kind"], finding["severity"], finding["line"]) == (
        "deadlock",
        "error",
        device.line(marker),
    )
    assert "waits for ever" in finding["message"]


def test_a_fault_ends_the_waiting_of_the_others(device: Device) -> None:
    device.call("fault_dies", device.empty(1))
    kinds = [finding["kind"] for finding in device.findings()]
    assert kinds == ["illegal-address"]
    device.reset()
    order = device.empty(20, "int32")
    device.call("run_backwards", order, 20)
    assert order.tolist() == list(range(19, -1, -1))
    assert clean(device)


def test_a_barrier_of_more_blocks_than_fit_is_found_at_real_sizes(device: Device) -> None:
    cells = device.array(np.zeros(4096))
    device.call("run_rounds", cells, 40, 1024, 1)
    assert clean(device)
    device.runtime.kw_sample(c_abi.SAMPLE_HOST_ONLY)
    device.call("run_rounds", cells, 264, 1024, 1)
    assert device.findings() == []
    device.call("run_rounds", cells, 2048, 1024, 1)
    (finding,) = device.findings()
    device.runtime.kw_sample(c_abi.SAMPLE_OFF)
    assert finding["kind"] == "illegal-launch"
    assert "2048 blocks of 1024 threads are not there at once" in finding["message"]
