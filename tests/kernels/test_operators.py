"""What torch asks of an operator, over the CPU implementations: registration, gradients, torch.compile."""

from importlib import import_module
from typing import Any

import pytest
import torch
from kernels.calls import CALLS, Call
from kernels.dispatched import Recorder, opcheck
from torch._dynamo.testing import CompileCounter

from agent.kernels import group_norm, linear_cross_entropy, sources
from agent.kernels.group_norm import operator as group_norm_operator
from agent.kernels.linear_cross_entropy import operator as linear_cross_entropy_operator
from agent.kernels.operators import Operator

pytestmark = pytest.mark.usefixtures("taken")
EVERY = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@EVERY
def test_value_and_gradient_by_either_way(call: Call) -> None:
    """Direct, and through the dispatcher, which a mode forces."""
    tensors = call.tensors()
    wanted = call.native(*tensors)
    grad = torch.randn_like(wanted)
    gradients = torch.autograd.grad(wanted, tensors, grad)
    direct = call.ours(*tensors)
    with Recorder() as seen:
        dispatched = call.ours(*tensors)
        found = torch.autograd.grad(dispatched, tensors, grad)
    directions = ["forward"] if call.expands else ["forward", "backward"]
    assert [op._opname.rpartition("_")[2] for op, _ in seen.calls] == directions
    with torch.no_grad():
        torch.testing.assert_close(call.ours(*tensors), wanted)
    torch.testing.assert_close(direct, wanted)
    torch.testing.assert_close(dispatched, wanted)
    for ours in (torch.autograd.grad(direct, tensors, grad), found):
        torch.testing.assert_close(ours, gradients)


@EVERY
def test_autocast_changes_no_dtype_within(call: Call) -> None:
    """What autocast gives an operator is converted before it; products in it would come out in half."""
    tensors = call.tensors()
    made = []
    for is_cast in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=is_cast):
            y = call.ours(*tensors)
            made.append((y, *torch.autograd.grad(y, tensors, torch.ones_like(y))))
            with Recorder():
                made[-1] += (call.ours(*tensors),)
    torch.testing.assert_close(made[1], made[0], rtol=0, atol=0)


@EVERY
def test_opcheck(call: Call) -> None:
    opcheck(call)


@pytest.mark.parametrize(
    "name",
    ["add_layer_norm", "add_rms_norm", "batch_norm, residual, silu", "conv_logsumexp", "cross_entropy",
     "cumsum from the end", "embedding_rms_norm, the norm alone",
     "gate_product", "group_norm, residual, silu",
     "layer_norm", "linear_cross_entropy", "linear_fp32x3", "linear_group_norm_min_bias", "masked_softmax",
     "masked_softmax with a bias", "reduction to means", "reduction to norms",
     "reduction to largest of columns", "rms_norm", "rotary", "softmax", "logsumexp"],
)  # fmt: skip
def test_gradcheck(name: str) -> None:
    call = CALLS[name]
    assert torch.autograd.gradcheck(call.ours, call.tensors(), check_undefined_grad=False)


@pytest.mark.parametrize(
    "name",
    ["add_layer_norm of two dimensions, the norm alone", "conv_logsumexp", "cumsum",
     "gate_product of halves, gate second", "gelu", "group_norm", "layer_norm", "linear_fp32x3",
     "linear_group_norm_min_bias", "masked_softmax with a bias", "reduction to norms", "rms_norm", "rotary",
     "softmax", "logsumexp"],
)  # fmt: skip
def test_compiles_whole_and_once_for_every_batch(name: str) -> None:
    call = CALLS[name]
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(call.ours, fullgraph=True, dynamic=True, backend=counter)
    x, *parameters = call.tensors(torch.float32)
    for batch in (6, 7, 9):
        larger = torch.randn(batch, *x.shape[1:])
        torch.testing.assert_close(compiled(larger, *parameters), call.native(larger, *parameters))
    assert counter.frame_count == 1


@pytest.mark.parametrize(
    "name",
    ["cumsum", "embedding_layer_norm", "embedding_rms_norm, the norm alone",
     "gate_product of halves, gate second", "gelu", "group_norm", "layer_norm", "linear_fp32x3",
     "reduction to norms", "rms_norm", "rotary", "softmax"],
)  # fmt: skip
def test_training_steps_compile_whole_and_once_for_every_batch(name: str) -> None:
    call = CALLS[name]
    torch._dynamo.reset()
    compiled = torch.compile(call.ours, fullgraph=True, dynamic=True, backend="aot_eager")
    x, *parameters = call.tensors(torch.float32)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for batch in (6, 7, 9):
            tensors = [torch.randn(batch, *x.shape[1:], requires_grad=True), *parameters]
            found = torch.autograd.grad(compiled(*tensors).square().sum(), tensors)
            wanted = torch.autograd.grad(call.native(*tensors).square().sum(), tensors)
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_a_training_step_compiles_whole() -> None:
    call = CALLS["group_norm"]
    torch._dynamo.reset()
    tensors = call.tensors(torch.float32)
    compiled = torch.compile(call.ours, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*tensors).square().sum(), tensors)
    wanted = torch.autograd.grad(call.native(*tensors).square().sum(), tensors)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("rank", [4, 5])
def test_channels_last_stays_channels_last(rank: int) -> None:
    last = torch.channels_last if rank == 4 else torch.channels_last_3d
    x = (
        torch.randn(2, 4, *[3] * (rank - 2), dtype=torch.float64)
        .contiguous(memory_format=last)
        .requires_grad_()
    )
    y = group_norm(x, 2)
    (grad,) = torch.autograd.grad(y.square().sum(), x)
    assert y.is_contiguous(memory_format=last)
    assert grad.is_contiguous(memory_format=last)
    torch.testing.assert_close(y, torch.nn.functional.group_norm(x, 2))


def test_a_gradient_of_a_gradient_is_refused() -> None:
    for call in (CALLS["softmax"], CALLS["group_norm"]):
        tensors = call.tensors()
        with Recorder():
            grads = torch.autograd.grad(call.ours(*tensors).square().sum(), tensors, create_graph=True)
            with pytest.raises(NotImplementedError, match="differentiable once"):
                grads[0].sum().backward()
        direct = torch.autograd.grad(call.ours(*tensors).square().sum(), tensors, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            direct[0].sum().backward()


def test_a_frozen_parameter_gets_no_gradient() -> None:
    x, weight, bias = CALLS["layer_norm"].tensors()
    y = CALLS["layer_norm"].ours(x, weight.detach(), bias)
    y.sum().backward()
    assert x.grad is not None
    assert bias.grad is not None


def test_functional_transforms_take_the_dispatcher() -> None:
    call = CALLS["gelu"]
    (x,) = call.tensors()
    found = torch.func.vmap(call.ours)(x)
    torch.testing.assert_close(found, call.native(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # of torch's own
def test_forward_mode_is_refused_and_not_ignored() -> None:
    import torch.autograd.forward_ad as forward_ad

    (x,) = CALLS["gelu"].tensors()
    with forward_ad.dual_level(), pytest.raises((RuntimeError, NotImplementedError), match="jvp"):
        CALLS["gelu"].ours(forward_ad.make_dual(x.detach(), torch.ones_like(x)))


def test_a_trace_sees_the_operator() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(CALLS["softmax"].ours)(torch.randn(3, 4, 5))
    assert "kernelwright.softmax_forward" in graph.code


def test_every_operator_names_its_schemas() -> None:
    from agent.kernels.softmax import operator

    assert isinstance(operator._OPERATOR, Operator)
    assert [schema.partition("(")[0] for schema in operator.SCHEMAS] == [
        "kernelwright::softmax_forward", "kernelwright::softmax_backward",
    ]  # fmt: skip


@pytest.mark.parametrize("name", sources.NAMES)
def test_tensors_come_before_other_arguments(name: str) -> None:
    """As `Direction.tensors` counts on."""
    operator = import_module(f"agent.kernels.{name}.operator")
    for schema in operator.SCHEMAS:
        arguments = schema.partition("(")[2].partition(")")[0].split(", ")
        are_tensors = [argument.startswith("Tensor") for argument in arguments]
        assert are_tensors == sorted(are_tensors, reverse=True)


def test_a_gradient_that_is_not_wanted_is_not_made() -> None:
    x, weight, bias = CALLS["group_norm"].tensors()
    mean, rstd = (torch.ones(2, 2, dtype=torch.float64) for _ in range(2))
    arguments = (x, x, None, weight, bias, mean, rstd, 2, "none", [True, False, False, True])
    with torch.no_grad():
        direct = group_norm_operator._OPERATOR.backward(*arguments)
        with Recorder():
            dispatched = group_norm_operator._OPERATOR.backward(*arguments)
    assert [value is None for value in direct] == [False, True, True, False]
    assert [value is not None and value.numel() for value in dispatched] == [x.numel(), 0, 0, bias.numel()]


@pytest.mark.parametrize(
    ("rows", "differentiated", "sizes"),
    [
        pytest.param(14, "x, weight", [(2, 5)] * 7, id="the weight's sums are smaller than the logits"),
        pytest.param(6, "x, weight", [(6, 5)], id="and larger"),
        pytest.param(6, "x", [(2, 5)] * 3, id="without the weight's gradient"),
    ],
)
def test_a_loss_in_chunks_is_that_of_all_rows(
    rows: int, differentiated: str, sizes: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And makes all of the logits only where that takes less memory."""
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(n, 4, generator=generator, dtype=torch.float64) for n in (rows, 5))
    tensors = [tensor.requires_grad_() for tensor in (x, weight)[: len(differentiated.split())]]
    target = torch.arange(rows) % 5
    wanted = torch.nn.functional.cross_entropy(x @ weight.T, target)
    gradients = torch.autograd.grad(wanted, tensors)
    monkeypatch.setattr(linear_cross_entropy_operator, "CHUNK_BYTES", 2 * 5 * 8)
    made, linear = [], torch.nn.functional.linear

    def watched(*arguments: Any) -> torch.Tensor:
        logits = linear(*arguments)
        made.append(tuple(logits.shape))
        return logits

    monkeypatch.setattr(torch.nn.functional, "linear", watched)
    value = linear_cross_entropy(x, weight, target)
    torch.testing.assert_close(value, wanted, check_dtype=False)
    torch.testing.assert_close(torch.autograd.grad(value, tensors), gradients)
    assert made == sizes
