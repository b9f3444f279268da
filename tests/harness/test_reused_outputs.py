"""Outputs of many calls that are held at once: rings of buffers come round, right answers stand."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from agent.harness.messages import worker_answers
from agent.harness.task.faults import Refused
from agent.harness.trial.reused_outputs import ENOUGH, ReusedOutputs
from agent.harness.worker import memory_guards
from agent.sandbox import ChildFault, messages

Forward = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture
def held_outputs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """As the worker imports it, beside its own copies."""
    monkeypatch.setitem(sys.modules, "memory_guards", memory_guards)
    from agent.harness.worker import held_outputs

    return held_outputs


class Candidate:
    """The candidate's process, as far as it answers here; a call without blocks fails after `host_calls`."""

    def __init__(self, module: ModuleType, forward: Forward, host_calls: float = float("inf")) -> None:
        self._module, self._forward, self._host_calls = module, forward, host_calls
        self._x, self._kept = torch.rand(4, 8), [[torch.rand(4, 8)] for _ in range(3)]
        self._blocks = True
        self._launches, self.idle_from, self.operators = 0, float("inf"), {"add"}
        self.dies = False

    def tell(self, command: dict[str, Any], doing: str) -> dict[str, Any]:
        model = nn.Module()
        model.forward = self._call
        given = SimpleNamespace(**{key: value for key, value in command.items() if key != "do"})
        given.seconds = given.longer_seconds = 60.0  # of a test, the machine may be as busy as it likes
        answer: dict[str, Any] = self._module.run(model, [self._x], self._kept, given, self)
        worker_answers.check(answer, worker_answers.expected(command, "cuda"), "cuda")
        return answer

    def ask(self, command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        if self.dies:
            raise ChildFault("ended")
        return self.tell(command, "")

    def check(self, *given: Any) -> None:
        """The judge's check of an answer, and the switch of checked accesses."""

    def launches(self) -> int:
        return self._launches

    def end_record(self) -> None:
        """Nothing is recorded here."""

    @contextlib.contextmanager
    def without_blocks(self) -> Iterator[SimpleNamespace]:
        self._blocks = False
        yield SimpleNamespace(operators=self.operators)

    def _call(self, x: torch.Tensor) -> torch.Tensor:
        self._launches += self._launches < self.idle_from
        if not self._blocks:
            self._host_calls -= 1
            if self._host_calls < 0:
                raise RuntimeError("a value is needed")
        return self._forward(x)


def reuse(candidate: Any, name: Any = "full", allowed: list[str] | None = None) -> ReusedOutputs:
    made = ReusedOutputs(candidate, name, lambda operator: operator == "add")
    made.allowed = [allowed or []]
    return made


def ring(size: int) -> Forward:
    buffers: list[torch.Tensor] = []
    numbers = count()

    def forward(x: torch.Tensor) -> torch.Tensor:
        number = next(numbers)
        if number < size:
            buffers.append(torch.empty_like(x))
        return buffers[number % size]

    return forward


@pytest.mark.parametrize("size", [16, 63])
def test_a_ring_comes_round_in_calls_that_compute(held_outputs: ModuleType, size: int) -> None:
    with pytest.raises(Refused) as refused:
        reuse(Candidate(held_outputs, ring(size))).check_computing()
    assert refused.value.findings[0].kind == "output-reused"
    assert refused.value.status == "rejected"


def test_a_larger_ring_comes_round_where_the_host_code_alone_runs(held_outputs: ModuleType) -> None:
    looked = reuse(Candidate(held_outputs, ring(120)))
    looked.check_computing()
    with pytest.raises(Refused):
        looked.check_host()


def test_a_ring_of_many_comes_round_where_what_is_returned_is_kept(held_outputs: ModuleType) -> None:
    looked = reuse(Candidate(held_outputs, ring(1000)))
    looked.check_computing()
    with pytest.raises(Refused):
        looked.check_host()


def test_a_later_call_without_a_launch_is_refused(held_outputs: ModuleType) -> None:
    candidate = Candidate(held_outputs, lambda x: x + 1)
    candidate.idle_from = 40
    with pytest.raises(Refused) as refused:
        reuse(candidate).check_computing()
    assert refused.value.findings[0].kind == "no-kernel-launched"


def test_another_operator_of_torch_in_later_calls_is_refused(held_outputs: ModuleType) -> None:
    candidate = Candidate(held_outputs, lambda x: x + 1)
    candidate.operators = {"add", "_softmax"}
    with pytest.raises(Refused) as refused:
        reuse(candidate).check_host()
    assert refused.value.findings[0].kind == "calls-behave-differently"
    assert "torch's softmax runs" in refused.value.findings[0].message


def test_slices_of_a_slab_overlap_when_it_wraps(held_outputs: ModuleType) -> None:
    slab, numbers = torch.empty(1000), count()
    forward: Forward = lambda x: slab[(at := next(numbers) * 33 % 960) : at + 32].view(4, 8)  # noqa: E731
    with pytest.raises(Refused):
        reuse(Candidate(held_outputs, forward)).check_computing()


def test_the_input_itself_is_refused_in_any_call(held_outputs: ModuleType) -> None:
    numbers = count()
    with pytest.raises(Refused) as refused:
        reuse(Candidate(held_outputs, lambda x: x if next(numbers) > 20 else x + 1)).check_computing()
    assert refused.value.findings[0].kind == "output-aliases-input"


def test_fresh_outputs_stand_and_the_scope_says_nothing(held_outputs: ModuleType) -> None:
    looked = reuse(Candidate(held_outputs, lambda x: x + 1))
    looked.check_computing()
    assert looked.check_host() == ()


def test_what_the_reference_shares_a_candidate_may_share(held_outputs: ModuleType) -> None:
    looked = reuse(Candidate(held_outputs, lambda x: x), allowed=["input"])
    looked.check_computing()
    assert looked.check_host() == ()


def test_calls_before_one_that_needs_a_value_count(held_outputs: ModuleType) -> None:
    with pytest.raises(Refused):
        reuse(Candidate(held_outputs, ring(16), host_calls=20)).check_host()
    (left_out,) = reuse(Candidate(held_outputs, lambda x: x + 1, host_calls=6)).check_host()
    assert left_out.startswith("outputs of more than 5 further calls held at once: RuntimeError: a value")
    assert ENOUGH > 5


def test_a_process_that_ends_without_values_refuses_nothing(held_outputs: ModuleType) -> None:
    candidate = Candidate(held_outputs, lambda x: x + 1)
    candidate.dies = True
    (left_out,) = reuse(candidate).check_host()
    assert "the process ended" in left_out


def test_quick_protocols_hold_nothing() -> None:
    looked = reuse(None, "quick")
    looked.check_computing()
    assert looked.check_host() == ()


@pytest.mark.parametrize("change", [{"calls": "3"}, {"shared": [3]}, {"stopped": 1}, {"more": 1}])
def test_other_answers_are_none(change: dict[str, Any]) -> None:
    answer = {"calls": 3, "shared": [], "stopped": None} | change
    with pytest.raises(messages.Malformed):
        worker_answers.check(answer, worker_answers.expected({"do": "further"}, "cuda"), "cuda")
