"""Elements of an output that no launch has written, and outputs that only look like it."""

import ctypes
import math
from collections.abc import Iterator

import pytest
import torch
from device_library import DEVICE, Device, build_runtime

from agent.harness.worker.worker_commands import Conditions
from agent.torch_shim import c_abi
from agent.torch_shim.runtime import Runtime


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    built = Device(DEVICE / "outputs.cu", checked=True)
    yield built
    built.runtime.kw_check(0)


@pytest.fixture
def runtime(device: Device) -> Iterator[Runtime]:
    """Checks are on; the kernels here are launched on the default stream, which is torch's too."""
    device.reset()
    made = Runtime(str(build_runtime()), 2)
    made.check(True)
    made.set_stream(0)
    yield made
    made.check(False)
    made.set_stream(0)  # other tests of this process launch there


def run(device: Device, function: str, tensor: torch.Tensor, count: int) -> None:
    device.call(function, ctypes.c_void_p(tensor.data_ptr()), count)


def test_unwritten_elements_of_an_output(device: Device, runtime: Runtime) -> None:
    out = runtime.uninitialised(torch.empty(4, 16, device="meta"))
    run(device, "run_writes_some", out, 40)
    runtime.check_outputs({"result": [out]})
    [finding] = runtime.findings()
    assert finding["kind"] == "unwritten-output"
    message = "24 of 64 elements of the float32 output [4, 16] were never written; the first is [2, 8]."
    assert finding["message"].startswith(message)
    assert math.isnan(float(out[2, 8]))


def test_outputs_that_were_written_otherwise(device: Device, runtime: Runtime) -> None:
    by_kernel, by_torch, by_copy = (
        runtime.uninitialised(torch.empty(64, dtype=torch.int64, device="meta")) for _ in range(3)
    )
    run(device, "run_minus_one", by_kernel, 64)
    by_torch.fill_(-1)
    device.runtime.cudaMemset(ctypes.c_void_p(by_copy.data_ptr()), 0xFF, 512)
    transposed = runtime.uninitialised(torch.empty(8, 8, device="meta"))
    run(device, "run_writes_some", transposed, 64)
    runtime.check_outputs([by_kernel, by_torch, by_copy, transposed.T, torch.full((3,), -1)])
    assert runtime.findings() == []


@pytest.mark.parametrize("memory", [c_abi.MEMORY_HUGE, c_abi.MEMORY_LEAST, c_abi.MEMORY_USED])
def test_what_a_secret_check_finds_in_memory_is_no_unwritten_output(
    device: Device, runtime: Runtime, memory: int
) -> None:
    runtime.check(True, Conditions(memory, c_abi.ORDER_INTERLEAVED, 5, 0))
    out = runtime.uninitialised(torch.empty(64, dtype=torch.float16, device="meta"))
    runtime.check_outputs([out.zero_()])
    assert runtime.findings() == []
