"""Calls by the dispatcher go past Python where no gradient is wanted, and are what they were otherwise."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kernels.calls import CALLS
from kernels.dispatched import Recorder, opcheck
from kernels.replaying_calls import Calls, assert_alike, drawn, rms, rms_by_torch, step

from agent.kernels.binding import LaunchError
from agent.kernels.replaying import replayed

FORWARD: Any = torch.ops.kernelwright.rms_norm_forward.default
FORMULA = "autograd_impl"
BACKWARD: Any = torch.ops.kernelwright.rms_norm_backward.default


def entered(function: Callable[[], object], name: str, file: str = "") -> int:
    """How often a function of Python of this name, in a file of that name, is entered."""
    times = 0

    def see(frame: Any, event: str, argument: object) -> None:
        nonlocal times
        code = frame.f_code
        times += event == "call" and code.co_name == name and code.co_filename.endswith(file)

    sys.setprofile(see)
    try:
        function()
    finally:
        sys.setprofile(None)
    return times


def formulas(function: Callable[[], object]) -> int:
    """How often Python's part of autograd for operators of torch.library is entered."""
    return entered(function, FORMULA)


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


def test_compiled_steps_are_replayed_past_python(calls: Calls) -> None:
    compiled = torch.compile(rms, backend="aot_eager", fullgraph=True, dynamic=False)
    x, weight = drawn(3, 8), drawn(8)
    for _ in range(2):
        step(compiled, x, weight)
    with torch.no_grad():
        for _ in range(2):
            compiled(x, weight)
        assert entered(lambda: compiled(x, weight), "<lambda>", "operators.py") == 0
    before = calls.since()
    assert entered(lambda: step(compiled, x, weight), FORMULA) == 0
    assert entered(lambda: step(compiled, x, weight), "<lambda>", "operators.py") == 0
    assert calls.since(before) == (0, 4)


def test_each_kind_has_its_own_results(calls: Calls) -> None:
    """Numbers, flags and texts are part of the kind, and what is not wanted is an empty tensor."""
    gates = torch.ops.kernelwright.gate_product_forward.default
    x, y = drawn(3, 8), drawn(3, 8)
    for number in range(3):
        before = calls.since()
        for eps in (1e-5, 1.0):
            value, rstd = FORWARD(x, None, 1, eps)
            torch.testing.assert_close(value, F.rms_norm(x, (8,), None, eps))
        for wanted in ([True, False], [False, True], [True, True]):
            grads = BACKWARD(y, x, drawn(8), rstd, wanted)
            assert [grad.numel() for grad in grads] == [24 * wanted[0], 8 * wanted[1]]
        for act in ("silu", "gelu"):  # the library on the host knows one of them
            torch.testing.assert_close(gates(x, y, act, False), F.silu(x) * y)
        for shape in ((8, 3), (2, 12)):
            z = drawn(*shape)
            torch.testing.assert_close(FORWARD(z, None, 1, 1e-5)[0], rms_by_torch(z))
        assert calls.since(before) == ((0, 9) if number else (9, 0))


def test_a_launch_that_is_refused_says_so(calls: Calls) -> None:
    x = drawn(3, 8)
    for _ in range(2):
        FORWARD(x, None, 1, 1e-5)
    x[0, 0] = torch.nan
    with pytest.raises(LaunchError):
        FORWARD(x, None, 1, 1e-5)


def test_what_was_recorded_is_forgotten_with_all_else(calls: Calls) -> None:
    x = drawn(3, 8)
    for _ in range(2):
        FORWARD(x, None, 1, 1e-5)
    replayed.reset()
    before = calls.since()
    FORWARD(x, None, 1, 1e-5)
    assert calls.since(before) == (1, 0)


@pytest.mark.parametrize("name", ["rms_norm", "add_rms_norm", "group_norm, residual, silu"])
@pytest.mark.usefixtures("taken")
def test_opcheck(name: str, built: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_CACHE_DIR", str(built[0]))
    replayed.load()
    opcheck(CALLS[name])
