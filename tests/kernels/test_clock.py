"""The GPU's time of a call: behind a wait that outlasts the host, and in a row, where the host counts."""

import pytest
import torch

from agent.kernels import clock


class Gpu:
    """A GPU on which a call takes the host `host` cycles to queue and the GPU 1000; time is in cycles."""

    def __init__(self, host: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host, self.now, self.free_at = host, 0, 0
        self.waits: list[int] = []
        monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Event(self))
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        monkeypatch.setattr(torch.cuda, "_sleep", self.wait, raising=False)

    def wait(self, cycles: int) -> None:
        self.waits.append(cycles)
        self.free_at = self.now + cycles

    def call(self) -> None:
        self.now += self.host
        self.free_at = max(self.free_at, self.now) + 1000

    def synchronize(self) -> None:
        self.now = max(self.now, self.free_at)


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.at = gpu, 0

    def record(self) -> None:
        self.at = max(self.gpu.free_at, self.gpu.now)

    def query(self) -> bool:
        return self.at <= self.gpu.now

    def elapsed_time(self, end: "Event") -> float:
        return end.at - self.at


@pytest.mark.parametrize(("host", "waits"), [(10_000, [1_000_000]), (3_000_000, [1_000_000, 4_000_000])])
def test_the_hosts_time_does_not_count(monkeypatch: pytest.MonkeyPatch, host: int, waits: list[int]) -> None:
    gpu = Gpu(host, monkeypatch)
    assert clock.queued(gpu.call) == 1000
    assert gpu.waits == waits


def test_a_call_that_no_wait_outlasts_is_timed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(10**9, monkeypatch)
    assert clock.queued(gpu.call) == 10**9 - clock.MOST_AHEAD + 1000
    assert gpu.waits[-1] == clock.MOST_AHEAD


@pytest.mark.parametrize(("host", "span"), [(100, 1000), (5000, 5000)])
def test_in_a_row_the_slower_of_host_and_gpu_counts(
    monkeypatch: pytest.MonkeyPatch, host: int, span: int
) -> None:
    gpu = Gpu(host, monkeypatch)
    assert clock.in_a_row(gpu.call, 1000) == pytest.approx(span, rel=0.01)
    assert gpu.waits == []
