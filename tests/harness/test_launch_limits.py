"""Launches that no GPU starts, by what ptxas says of the kernel."""

import pytest

from agent.build.build_request import BuildRequest
from agent.harness.backends import build_watch
from agent.harness.integrity.launch_limits import (
    Launched,
    Limits,
    claimed,
    most_threads,
    recorded,
    require_startable,
)
from agent.harness.task.faults import Refused
from agent.records import Candidate, KernelResources

KERNELS = [
    KernelResources(name="heavy", registers=128, shared_bytes=0),
    KernelResources(name="light", registers=64, shared_bytes=40 << 10),
    KernelResources(name="typed<float>", registers=200, shared_bytes=0),
    KernelResources(name="twice<int, 1>", registers=255, shared_bytes=0),
    KernelResources(name="twice<int, 2>", registers=32, shared_bytes=0),
    KernelResources(name="unknown"),
]
TEXT = """
__global__ void heavy(float* y);
__global__ void __launch_bounds__(64) small(float* y) {}
__launch_bounds__(64) __global__ void other(float* y) {}
template <int N> __global__ void __launch_bounds__(N) wide(float* y) {}
__global__ __launch_bounds__(128, 2) void pair(float* y) {}
"""
RAISES = "cudaFuncSetAttribute(light, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);"


def limits(*more: str) -> Limits:
    return Limits(KERNELS, [BuildRequest(name="n", cpp_sources=more, cuda_sources=(TEXT,))])


def words(name: str, threads: int, shared: int = 0, *more: str) -> list[str]:
    return [finding.message for finding in limits(*more).refused([Launched(name, threads, shared, 3)])]


@pytest.mark.parametrize(
    ("registers", "threads"),
    [(32, 2048), (64, 1024), (65, 896), (72, 896), (128, 512), (139, 384), (168, 384), (255, 256)],
)
def test_a_warp_takes_its_registers_from_one_of_four_parts(registers: int, threads: int) -> None:
    """As NVIDIA's occupancy calculator has it for sm_90: 139 are 144 in units, and 14 warps of 4608."""
    of_warp = -(-registers // 8) * 8 * 32
    assert most_threads(registers) == 4 * (16384 // of_warp) * 32
    assert most_threads(registers) == threads


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        ("heavy", 1024), ("heavy", 513), ("void heavy(float*)", 1024), ("typed<float>", 512), ("small", 65),
        ("pair", 129),
    ],
)  # fmt: skip
def test_what_no_gpu_starts_is_refused(name: str, threads: int) -> None:
    [said] = words(name, threads)
    assert "is never launched on a GPU" in said


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        ("heavy", 512), ("light", 1024), ("twice<T, N>", 1024), ("unknown", 1024), ("absent", 1024),
        ("small", 64), ("wide", 1024), ("other", 65), ("pair", 128), ("", 32),
    ],
)  # fmt: skip
def test_what_a_gpu_starts_is_not(name: str, threads: int) -> None:
    assert words(name, threads) == []


def test_the_mend_is_in_the_words() -> None:
    [said] = words("heavy", 1024)
    assert "1024 threads with 128 registers" in said
    assert "At most 512 threads fit; or declare __launch_bounds__(1024)" in said


def test_shared_memory_of_both_kinds_counts_together() -> None:
    assert "cudaFuncSetAttribute raises the limit" in words("light", 64, 20 << 10)[0]
    assert words("light", 64, 8 << 10) == []
    assert words("light", 64, 20 << 10, RAISES) == []
    assert "together more than 232448" in words("light", 64, 200 << 10, RAISES)[0]


def test_launches_are_those_of_the_record() -> None:
    step = {"name": "heavy", "block": [512, 2, 1], "shared": 0, "line": 4}
    [launch] = recorded([["file", 1], ["launch", step]])
    [finding] = limits().refused([launch])
    assert finding.location is not None
    assert (finding.location.line, finding.location.kernel) == (4, "heavy")


def test_every_call_counts_and_not_the_recorded_one_alone() -> None:
    launch = {"kernel": "void heavy(float*)", "threads": 1024, "shared": 0, "line": 4}
    with pytest.raises(Refused, match="is never launched on a GPU") as refused:
        require_startable({"kernels": [launch]}, limits(), lambda finding: finding)
    assert refused.value.status == "runtime_error"
    require_startable({"kernels": [launch | {"threads": 512}]}, limits(), lambda finding: finding)


@pytest.mark.parametrize(
    "entry",
    [
        None, [], "heavy", {"kernel": 4, "threads": 1024, "shared": 0, "line": 1}, {"kernel": "heavy"},
        {"kernel": "heavy", "threads": True, "shared": 0, "line": 1},
        {"kernel": "heavy", "threads": "1024", "shared": 0, "line": 1},
    ],
)  # fmt: skip
def test_a_malformed_claim_is_left_out(entry: object) -> None:
    assert claimed({"kernels": [entry]}) == []
    assert claimed({"kernels": entry}) == claimed({}) == []


def test_a_line_that_is_none_is_left_out() -> None:
    entry = {"kernel": "heavy", "threads": 1024, "shared": 0, "line": -3}
    assert claimed({"kernels": [entry]}) == [Launched("heavy", 1024, 0)]


def test_a_call_that_a_flag_names_is_read_as_text() -> None:
    calls = 'int f() { return run("true"); }'
    for flags in (("-Drun=system",), ("-D", "run=system")):
        request = BuildRequest(name="n", cpp_sources=(calls,), extra_cuda_cflags=flags)
        with pytest.raises(Refused, match="starts and ends no process"):
            build_watch.screened(request, Candidate(problem="p", source=""), "gemm-conv")
    fine = BuildRequest(name="n", cpp_sources=("int f();",), extra_cuda_cflags=("-DTILE=16", "-DFAST"))
    build_watch.screened(fine, Candidate(problem="p", source=""), "gemm-conv")
