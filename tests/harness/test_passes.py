"""The kernels that compare large outputs, run by the emulator with checks, tell what torch's passes tell."""

import ctypes
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from device_library import Device, settle

from agent.harness.oracle import baselines
from agent.harness.truth import PASSES, limits, passes

COUNT, WIDTH = 4 * 1111, 44
LAUNCHES = """
#define LAUNCHED(NAME, DECLARED, ...) extern "C" int run_##NAME(DECLARED) {\\
    NAME<<<blocks, THREADS>>>(__VA_ARGS__); return cudaDeviceSynchronize(); }
#define WITH(...) int blocks, __VA_ARGS__
LAUNCHED(errors_of_runs, WITH(const double* t, const float* a, const float* b, const float* c, long long n,
    double* r), t, a, b, c, n, r)
LAUNCHED(errors_of_output, WITH(const double* t, const float* y, long long n, float f, float s, float c,
    double* r), t, y, n, f, s, c, r)
LAUNCHED(differences, WITH(const float* a, const float* b, long long n, double* r), a, b, n, r)
"""


class Emulated:
    """In the place of `passes.Kernels`; pointers into torch's memory become copies in the device's."""

    def __init__(self, device: Device, tensors: Sequence[torch.Tensor]) -> None:
        self._device = device
        self._there = {
            t.data_ptr(): device.array(t.numpy(), str(t.dtype).removeprefix("torch.")) for t in tensors
        }

    def rows(self, name: str, arguments: Sequence[Any], columns: int) -> torch.Tensor:
        made = self._device.empty((passes.BLOCKS, columns), "float64")
        given = [
            self._there.get(value.value or 0, value) if isinstance(value, ctypes.c_void_p) else value
            for value in arguments
        ]
        assert self._device.call(f"run_{name}", passes.BLOCKS, *given, made) == 0
        assert self._device.findings() == []
        return torch.from_numpy(made.copy())


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    source = tmp_path_factory.mktemp("passes") / "passes.cu"
    Path(source).write_text(PASSES.read_text() + LAUNCHES)
    return Device(source, checked=True)


@pytest.fixture
def kernels(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Begins to use them for these tensors."""

    def used(*tensors: torch.Tensor) -> None:
        monkeypatch.setattr(passes, "_kernels", [Emulated(device, tensors)])
        monkeypatch.setattr(passes, "_are_plain", lambda *given, **like: True)

    device.runtime.kw_check(1)
    monkeypatch.setattr(passes, "BLOCKS", 3)
    yield used
    settle()


def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The truth, two float32 runs, and an output a little further off."""
    torch.manual_seed(0)
    truth = torch.randn(COUNT // WIDTH, WIDTH, dtype=torch.float64)
    native = truth.float()
    return truth, native, native + 4e-7 * torch.rand(truth.shape), native + 9e-7 * torch.rand(truth.shape)


def exactly(truth: torch.Tensor, native: torch.Tensor, other: torch.Tensor) -> limits.Limits:
    return limits.Limits(native, other, other, truth)


def test_limits_are_those_of_torchs_passes(kernels: Any) -> None:
    truth, native, other, third = drawn()
    for sequence in (other, third):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(passes, "_kernels", [])
            slow = limits.Limits(native, other, sequence, truth)
        kernels(truth, native, other, third)
        quick = limits.Limits(native, other, sequence, truth)
        for name in ("largest", "native_share", "absolute", "rms", "spread", "scale"):
            assert getattr(quick, name) == pytest.approx(getattr(slow, name), rel=1e-12), name
        assert quick.is_finite


def test_what_is_clearly_inside_is_as_far_off_as_by_torchs_passes(kernels: Any) -> None:
    truth, native, other, output = drawn()
    found = exactly(truth, native, other)
    exact, outside = limits.distances(output, truth, found)
    assert not outside
    kernels(truth, output)
    at_once = limits._at_once(output, truth, found)
    assert at_once is not None
    assert at_once[0] == {name: pytest.approx(value, rel=1e-4) for name, value in exact.items()}
    assert limits.told(output, truth, found) == (at_once[0], False)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_is_left_to_the_exact_way(kernels: Any, wrong: float) -> None:
    truth, native, other, output = drawn()
    found = exactly(truth, native, other)
    output[-1, -1] += wrong
    kernels(truth, output)
    assert limits._at_once(output, truth, found) is None
    assert limits.told(output, truth, found) is None


def test_what_is_clearly_outside_is_as_far_off_as_by_torchs_passes(kernels: Any) -> None:
    truth, native, other, output = drawn()
    found = exactly(truth, native, other)
    for wrong, alone in ((1e-3, True), (2e-6, False)):
        given = output.clone()
        given.view(-1)[-1 if alone else slice(None)] += wrong
        exact, outside = limits.distances(given, truth, found)
        assert (exact["ratio"] > 1, outside) == (True, alone)
        kernels(truth, given)
        at_once = limits.told(given, truth, found)
        assert at_once is not None
        assert at_once[0] == {name: pytest.approx(value, rel=1e-4) for name, value in exact.items()}
        assert at_once[1] is alone


def test_what_comes_near_a_limit_is_left_to_the_exact_way(kernels: Any) -> None:
    truth, native, other, output = drawn()
    found = exactly(truth, native, other)
    place = truth.abs().argmin()
    output.view(-1)[place] = truth.view(-1)[place] + found.of(truth.view(-1))[place]
    kernels(truth, output)
    assert limits.told(output, truth, found) is None


def test_limits_of_rows_are_left_to_the_exact_way(kernels: Any) -> None:
    truth, native, _, _ = drawn()
    # Where float32 makes no error, what counts is the size of each row.
    exact = native.double()
    found = exactly(exact, native, native + 1e-9)
    kernels(exact, native)
    assert limits._at_once(native, exact, found) is None


@pytest.mark.parametrize(("wrong", "close"), [(0.0, True), (math.nan, False), (0.1, False)])
def test_a_glance_finds_what_torchs_finds(kernels: Any, wrong: float, close: bool) -> None:
    _, native, other, _ = drawn()
    other[3, 5] += wrong
    assert baselines.near(other, native) is close
    kernels(native, other)
    assert baselines.near(other, native) is close
    apart = passes.differences(other, native)
    if math.isfinite(wrong):
        assert apart is not None
        assert apart[0] == pytest.approx(float(native.norm()))
        assert apart[1] == pytest.approx(float((other - native).abs().max()))
    else:
        assert apart is None


def test_not_finite_runs_are_left_to_the_exact_way(kernels: Any) -> None:
    truth, native, other, _ = drawn()
    native[0, 0] = math.inf
    kernels(truth, native, other)
    assert passes.errors_of_runs(truth, [native, other]) is None
    assert not exactly(truth, native, other).is_finite


def test_without_kernels_nothing_is_told() -> None:
    truth, native, other, _ = drawn()
    assert passes.errors_of_runs(truth, [native, other]) is None
    assert passes.differences(native, other) is None
