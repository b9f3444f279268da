"""torch's current stream, as Python sets it and launches see it."""

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from device_library import build_runtime

from agent.harness.task.conditions import Dealer
from agent.torch_shim import cuda_module
from agent.torch_shim.runtime import Runtime


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    made = Runtime(str(build_runtime()), 2)
    for name in cuda_module._answers():
        monkeypatch.setattr(torch.cuda, name, getattr(torch.cuda, name))
    for name in ("Stream", "Event"):
        monkeypatch.setattr(torch.cuda, name, getattr(torch.cuda, name))
    for kind, name in (
        (torch._C, "_dispatch_keys"),
        (torch.UntypedStorage, "device"),
        (torch.UntypedStorage, "clone"),
    ):
        monkeypatch.setattr(kind, name, getattr(kind, name))
    cuda_module.patch(made)
    made.set_stream(0)
    yield made
    made.check(False)
    made.set_stream(0)
    ctypes.CDLL(str(build_runtime())).kw_clear_findings()


def current() -> Any:
    return torch.cuda.current_stream().cuda_stream


def test_checked_calls_run_on_either_of_two_streams(runtime: Runtime) -> None:
    dealer = Dealer()
    seen = []
    for _ in range(2):
        runtime.check(True, dealer.deal(checked=True))
        seen.append(current())
    assert len(set(seen)) == 2
    assert not set(seen) & {0, 1, 2}
    for _ in range(8):
        runtime.check(False, dealer.deal(checked=False))
        assert current() in seen


def test_calls_run_on_a_stream_that_does_not_tell_whether_they_are_checked(runtime: Runtime) -> None:
    assert current() == torch.cuda.default_stream().cuda_stream == 0
    runtime.check(True)
    checked = current()
    assert checked not in (0, 1, 2)
    assert torch.cuda.current_stream() != torch.cuda.default_stream()
    runtime.check(False)
    assert current() == checked


def test_streams_nest(runtime: Runtime) -> None:
    made: Any = torch.cuda.Stream
    one, other = made(), made()
    assert len({0, one.cuda_stream, other.cuda_stream}) == 3
    with torch.cuda.stream(one):
        with other, torch.cuda.stream(None):
            assert current() == other.cuda_stream
        assert torch.cuda.current_stream() == one
    torch.cuda.set_stream(other)
    assert len({other, torch.cuda.current_stream()}) == 1


def test_an_error_is_a_finding_unless_somebody_asked(runtime: Runtime) -> None:
    library = ctypes.CDLL(str(build_runtime()))
    library.cudaSetDevice(7)
    with pytest.raises(RuntimeError, match="CUDA error: invalid device ordinal"):
        runtime.synchronize()
    [found] = runtime.findings()
    assert (found["kind"], found["severity"]) == ("unchecked-launch-error", "warning")
    assert found["message"].startswith(
        "cudaSetDevice failed (invalid device ordinal) and the host code never"
    )
    library.cudaSetDevice(7)
    assert library.cudaGetLastError() == 101
    runtime.synchronize()
    assert len(runtime.findings()) == 1
