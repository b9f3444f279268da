"""Calls in a row on contents of their own, with memory of the CPU in the place of a GPU's."""

import importlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from harness.cpu_segment import CpuSegment

from agent.harness.oracle import baselines, batched_calls
from agent.harness.worker import shared_memory

WORKER = Path(shared_memory.__file__).parent


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The worker's side of the exchange, as it is imported there."""
    monkeypatch.syspath_prepend(str(WORKER))
    module = importlib.import_module("transport")
    monkeypatch.setattr(batched_calls, "Segment", CpuSegment)
    monkeypatch.setattr(module.shared_memory, "Segment", CpuSegment)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return module


@pytest.fixture
def joined(transport: Any) -> Iterator[tuple[batched_calls.Rows, Any]]:
    """Room for five calls, and the worker that has it."""
    inputs, like = [torch.zeros(3, 4), 7], (torch.zeros(3), torch.zeros(3, dtype=torch.int64))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        made = batched_calls.Rows([ours], inputs, like, least=2, most=5)
        worker = transport.SharedMemory(theirs.fileno())
        worker.prepare_row(made.described)
        yield made, worker
        worker._oracle.detach()


def test_every_call_of_a_row_has_inputs_and_outputs_of_its_own(
    joined: tuple[batched_calls.Rows, Any],
) -> None:
    made, worker = joined
    given = [torch.randn(3, 4) for _ in range(made.calls)]
    for number, x in enumerate(given):
        made.fill(number, [x, 7])
    made.forget()
    assert worker.in_a_row(lambda x, n: (x.sum(1) + n, x.argmax(1)), made.calls)
    for number, x in enumerate(given):
        total, place = made.outputs(number)
        assert torch.equal(total, x.sum(1) + 7)
        assert torch.equal(place, x.argmax(1))


def test_calls_that_were_not_made_leave_nothing(joined: tuple[batched_calls.Rows, Any]) -> None:
    made, worker = joined
    for number in range(made.calls):
        made.fill(number, [torch.randn(3, 4), 7])
    assert worker.in_a_row(lambda x, n: (x.sum(1), x.argmax(1)), made.calls)
    made.forget()
    assert worker.in_a_row(lambda x, n: (x.sum(1), x.argmax(1)), 2)
    assert not bool(made.outputs(1)[0].isnan().any())
    assert bool(made.outputs(2)[0].isnan().all())


def test_outputs_that_do_not_fit_are_told(joined: tuple[batched_calls.Rows, Any]) -> None:
    made, worker = joined
    assert not worker.in_a_row(lambda x, n: (x.sum(), x.argmax(1)), made.calls)
    assert not worker.in_a_row(lambda x, n: (x.sum(1),), made.calls)


@pytest.mark.usefixtures("transport")
def test_there_is_no_room_for_rows_of_large_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_calls, "ROW_BYTES", 8 * shared_memory.BAND_BYTES)
    x = torch.zeros(64)
    assert batched_calls.Rows([], [x], x, least=2, most=9).calls == 0
    assert batched_calls.Rows([], [x], x, least=1, most=9).calls == 1


@pytest.mark.parametrize(
    ("off_by", "dtype", "near"),
    [(1e-6, torch.float32, True), (1e-3, torch.float32, False), (5e-3, torch.bfloat16, True)],
)
def test_a_glance_tells_rounding_from_lower_precision(off_by: float, dtype: torch.dtype, near: bool) -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(3))
    assert baselines.near((x * (1 + off_by)).to(dtype), x.to(dtype)) is near


def test_a_glance_takes_what_is_not_finite_as_it_is() -> None:
    x = torch.tensor([1.0, float("inf"), float("nan"), -2.0])
    assert baselines.near(x.clone(), x)
    assert not baselines.near(torch.tensor([1.0, 3.0, float("nan"), -2.0]), x)
    assert not baselines.near(torch.tensor([3, 4]), torch.tensor([3, 5]))
