"""Outside its envelope a kernel falls back to torch: visibly, once for each reason, or not at all."""

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from kernels.calls import CALLS, Call

from agent.errors import UsageError
from agent.kernels import (
    add_layer_norm,
    gate_product,
    group_norm,
    info,
    layer_norm,
    logsumexp,
    rotary,
    rotary_,
    routing,
    softmax,
)
from agent.kernels import (
    conv_group_norm_tanh_hardswish_residual_logsumexp as conv_logsumexp,
)
from agent.kernels.conv_group_norm_tanh_hardswish_residual_logsumexp import operator as conv_operator
from agent.kernels.conv_group_norm_tanh_hardswish_residual_logsumexp.operator import KERNEL
from agent.kernels.routing import Fallback, OutsideEnvelope

EVERY = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@EVERY
def test_torch_computes_what_the_kernel_does_not_take(call: Call) -> None:
    tensors = call.tensors()
    with pytest.warns(Fallback, match="the tensor is on cpu, and it runs on CUDA; torch computes this call"):
        found = call.ours(*tensors)
    torch.testing.assert_close(found, call.native(*tensors), rtol=0, atol=0)


def test_one_warning_for_each_kernel_and_reason() -> None:
    x = torch.randn(2, 4)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            softmax(x, 1)
        group_norm(x, 2)
        logsumexp(x, (0, 1))
        logsumexp(x, 1)
    assert [str(one.message).partition(":")[0] for one in seen] == [
        "softmax",
        "group_norm",
        "logsumexp",
        "logsumexp",
    ]
    assert all(one.filename == __file__ for one in seen)
    (known,) = info("softmax").values()
    assert known.fallbacks == {"the tensor is on cpu, and it runs on CUDA": 3}
    assert "torch computed 3 calls: the tensor is on cpu" in str(known)
    assert info("gelu")["gelu"].fallbacks == {}


def test_under_compile_the_warning_comes_with_the_trace() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: softmax(x, 1), fullgraph=True, backend="eager")
    with pytest.warns(Fallback, match="softmax"):
        compiled(torch.randn(2, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(torch.randn(2, 4))


@EVERY
def test_strict_raises(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNELS_STRICT", "1")
    with pytest.raises(OutsideEnvelope, match="on cpu.*AGENT_KERNELS_STRICT is set"):
        call.ours(*call.tensors())


@EVERY
def test_disabled_is_torch_without_a_word(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNELS_DISABLE", "1")
    monkeypatch.setenv("AGENT_KERNELS_STRICT", "1")
    tensors = call.tensors()
    torch.testing.assert_close(call.ours(*tensors), call.native(*tensors), rtol=0, atol=0)
    assert info("softmax")["softmax"].is_disabled


def test_a_setting_that_is_none_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNELS_STRICT", "perhaps")
    with pytest.raises(UsageError, match="AGENT_KERNELS_STRICT.*'perhaps'"):
        softmax(torch.randn(2, 4), 1)


Wrong = Callable[[], torch.Tensor]
WRONG: dict[str, Wrong] = {
    "groups that do not divide": lambda: group_norm(torch.randn(2, 5), 2),
    "a weight of another shape": lambda: layer_norm(torch.randn(2, 5), (5,), torch.ones(4)),
    "a dimension there is not": lambda: softmax(torch.randn(2, 5), 2),
    "a weight of other channels": lambda: conv_logsumexp(
        torch.randn(1, 3, 5, 5), torch.randn(4, 2, 3, 3), None, 2
    ),
    "no shape": lambda: layer_norm(torch.randn(2, 5), ()),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_are_torchs_to_refuse(wrong: Wrong) -> None:
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        wrong()


def test_a_residual_of_another_shape_is_torchs_to_add() -> None:
    x, residual = torch.randn(2, 3, 5), torch.randn(3, 5)
    with pytest.warns(Fallback, match="add_layer_norm: the residual has another shape, dtype or device"):
        y, added = add_layer_norm(x, residual, (5,))
    torch.testing.assert_close(added, x + residual)
    torch.testing.assert_close(y, torch.nn.functional.layer_norm(added, (5,)))


def test_a_gate_of_another_dtype_is_torchs_to_multiply() -> None:
    gate, value = torch.randn(2, 3), torch.randn(2, 3, dtype=torch.float64)
    with pytest.warns(Fallback, match="gate_product: gate and value differ in shape, dtype or device"):
        y = gate_product(gate, value)
    torch.testing.assert_close(y, torch.nn.functional.silu(gate) * value)


def test_turning_in_place_and_tables_that_do_not_fit() -> None:
    x, cos, sin = torch.randn(2, 3, 4), torch.randn(3, 2), torch.randn(3, 2)
    with pytest.warns(Fallback, match="rotary: the tensor is on cpu"):
        wanted = rotary(x, cos, sin)
    given = x.clone()
    assert rotary_(given, cos, sin) is given
    torch.testing.assert_close(given, wanted)
    with pytest.warns(Fallback, match="rotary: a table wants a gradient"):
        rotary(x, cos.requires_grad_(), sin).sum().backward()
    assert cos.grad is not None
    for table, dim in ((cos[:2], -2), (torch.randn(3, 3), -2), (cos, -1)):
        with pytest.raises(ValueError, match="does not fit|dim=-1"):
            rotary(x, table, table, dim=dim)


def test_an_activation_that_is_none() -> None:
    with pytest.raises(ValueError, match="act='mish': there are none, silu"):
        group_norm(torch.randn(2, 4), 2, act="mish")


class Elsewhere:
    """Stands for a CUDA tensor: what `obstacle` looks at."""

    is_cuda = True

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.device = torch.device("cuda:0")


REASONS = {
    "a dtype": (torch.float64, (), "the dtype is float64, and it takes float32, float16 and bfloat16"),
    "a parameter elsewhere": (
        torch.float32, (torch.ones(2),), "a parameter is float32 on cpu, and the input is float32 on cuda",
    ),
    "a parameter's dtype": (
        torch.float16, (Elsewhere(torch.bfloat16),), "a parameter is bfloat16 on cuda, and the input is",
    ),
    "two dtypes": (
        torch.float16, (Elsewhere(torch.float16), Elsewhere(torch.float32)),
        "the parameters are of two dtypes",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "others", "reason"), REASONS.values(), ids=REASONS.keys())
def test_reasons_for_a_tensor_on_a_gpu(
    dtype: torch.dtype, others: tuple[torch.Tensor, ...], reason: str
) -> None:
    x: torch.Tensor = Elsewhere(dtype)  # type: ignore[assignment]
    assert (routing.obstacle("softmax", x, others) or "").startswith(reason)


def test_a_kernel_of_one_dtype_says_so() -> None:
    x: torch.Tensor = Elsewhere(torch.float16)  # type: ignore[assignment]
    reason = routing.obstacle(KERNEL, x, (), conv_operator.DTYPES)
    assert reason == "the dtype is float16, and it takes float32"


@pytest.mark.parametrize(
    ("size", "most", "reason"),
    [(5, 1 << 16, "the weight is 5x5, and it takes 3x3"), (3, 2, "there are more images or pixels")],
)
def test_sizes_that_the_convolution_does_not_take(
    size: int, most: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv_operator, "_MOST_IMAGES", most)
    x, weight = torch.randn(2, 3, 6, 7), torch.randn(4, 3, size, size)
    with pytest.warns(Fallback, match=reason):
        y = conv_logsumexp(x, weight, None, 2)
    assert y.shape == (2, 1, 7 - size, 8 - size)


def test_an_old_gpu_and_a_failed_build_are_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (6, 1))
    assert routing.missing("softmax", 0) == "the device has compute capability 6.1, and it needs 7.0"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    monkeypatch.setattr("agent.build.nvcc.tool._places", lambda *_: iter(()))
    assert "there is no nvcc" in (routing.missing("softmax", 1) or "")
    assert routing.states("softmax").keys() == {0, 1}


def test_the_guides_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """On the CPU, and without Inductor, which takes half a minute."""
    torch._dynamo.reset()
    guide = Path(__file__).parents[2] / "docs" / "guides" / "using-the-kernels.md"
    script = guide.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert "torch.compile(model)" in script
    here = script.replace(".cuda()", "").replace(', device="cuda"', "")
    with pytest.warns(Fallback, match="group_norm: the tensor is on cpu"):
        exec(
            here.replace("torch.compile(model)", 'torch.compile(model, backend="aot_eager")'),
            {"torch": torch},
        )
    said = capsys.readouterr().out
    assert "1: GroupNorm" in said
    assert "torch computed 1 calls: the tensor is on cpu" in said
