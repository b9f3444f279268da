"""Operators whose calls go past Python's formula where no gradient is wanted are what they were otherwise."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from kernels.calls import CALLS
from kernels.dispatched import Recorder, opcheck
from kernels.replaying_calls import Calls, assert_alike, drawn, rms, rms_by_torch, step

from agent.kernels.replaying import replayed

FORWARD: Any = torch.ops.kernelwright.rms_norm_forward.default
BACKWARD: Any = torch.ops.kernelwright.rms_norm_backward.default


def formulas(function: Callable[[], object]) -> int:
    """How often Python's part of autograd for operators of torch.library is entered."""
    entered = 0

    def see(frame: Any, event: str, argument: object) -> None:
        nonlocal entered
        entered += event == "call" and frame.f_code.co_name == "autograd_impl"

    sys.setprofile(see)
    try:
        function()
    finally:
        sys.setprofile(None)
    return entered


def test_only_a_call_that_wants_a_gradient_meets_the_formula(calls: Calls) -> None:
    x, leaf = drawn(3, 8), drawn(3, 8).requires_grad_()
    assert formulas(lambda: FORWARD(x, None, 1, 1e-5)) == 0
    assert formulas(lambda: FORWARD(leaf, None, 1, 1e-5)) == 1
    with torch.no_grad():
        assert formulas(lambda: FORWARD(leaf, None, 1, 1e-5)) == 0
        value, rstd = FORWARD(leaf, None, 1, 1e-5)
        assert formulas(lambda: BACKWARD(x, leaf, None, rstd, [True, False])) == 0
    assert not value.requires_grad
    torch.testing.assert_close(value, rms_by_torch(leaf.detach()))
    weight = drawn(8).requires_grad_()
    assert formulas(lambda: FORWARD(x, weight, 1, 1e-5)) == 1


def test_gradients_by_the_dispatcher(calls: Calls) -> None:
    """A mode forces it; the second step replays what the first recorded."""
    for _ in range(2):
        x, weight = drawn(3, 8), drawn(8)
        with Recorder() as seen:
            made = step(rms, x, weight)
        assert_alike(made, step(rms_by_torch, x, weight))
        assert [op for op, _ in seen.calls] == [FORWARD, BACKWARD]


def test_a_gradient_of_a_gradient_is_refused_when_it_is_asked_for(calls: Calls) -> None:
    x = drawn(3, 8).requires_grad_()
    value, _ = FORWARD(x, None, 1, 1e-5)
    (grad,) = torch.autograd.grad(value.square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="differentiable once"):
        torch.autograd.grad(grad.sum(), x)


def test_functional_gradients_are_refused_as_before(calls: Calls) -> None:
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.grad(lambda x: FORWARD(x, None, 1, 1e-5)[0].sum())(drawn(3, 8))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_steps(dynamic: bool, calls: Calls) -> None:
    compiled = torch.compile(rms, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for rows in (3, 5):
        x, weight = drawn(rows, 8), drawn(8)
        before = calls.since()
        assert_alike(step(compiled, x, weight), step(rms_by_torch, x, weight))
        assert sum(calls.since(before)) == 2
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, weight), rms_by_torch(x, weight))


def test_compiled_code_meets_no_formula(calls: Calls) -> None:
    compiled = torch.compile(rms, backend="aot_eager", fullgraph=True, dynamic=False)
    x, weight = drawn(3, 8), drawn(8)
    for _ in range(2):
        step(compiled, x, weight)
    assert formulas(lambda: step(compiled, x, weight)) == 0


@pytest.mark.parametrize("name", ["rms_norm", "add_rms_norm", "group_norm, residual, silu"])
@pytest.mark.usefixtures("taken")
def test_opcheck(name: str, built: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_CACHE_DIR", str(built[0]))
    replayed.load()
    opcheck(CALLS[name])
