"""Calls that are more than plain ones are what they were; and what is there where the extension is not."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kernels.replaying_calls import Calls
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from agent.build import toolchain
from agent.errors import EnvironmentFault
from agent.kernels import built, routing
from agent.kernels.replaying import extension, replayed, watching
from agent.kernels.replaying.recording import record
from agent.kernels.rms_norm.operator import rms_norm
from agent.kernels.softmax.operator import softmax


def rms(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return rms_norm(x, (8,), None, eps)


def known_twice(x: torch.Tensor) -> torch.Tensor:
    """A tensor for which a call with and without gradients was recorded."""
    for _ in range(2):
        rms(x)
        with torch.no_grad():
            rms(x)
    return x


class Seen(TorchDispatchMode):
    """Names of the operators that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_a_dispatch_mode_sees_the_operator(calls: Calls) -> None:
    x = known_twice(torch.randn(3, 8))
    with Seen() as seen:
        rms(x)
    assert "kernelwright.rms_norm_forward.default" in seen.names


def test_a_function_mode_goes_by_the_dispatcher(calls: Calls) -> None:
    x = known_twice(torch.randn(3, 8))
    before = calls.since()

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with Mode():
        torch.testing.assert_close(rms(x), F.rms_norm(x, (8,), None, 1e-5))
    assert calls.since(before)[1] == 0


def test_a_subclass_is_python_s(calls: Calls) -> None:
    class Tagged(torch.Tensor):
        pass

    x = known_twice(torch.randn(3, 8))
    assert type(rms(x.as_subclass(Tagged))) is Tagged


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_functional_transforms_are_refused_or_right_as_before(calls: Calls) -> None:
    x = known_twice(torch.randn(3, 8))
    with pytest.warns(UserWarning, match="batching rule"):
        made = torch.vmap(rms)(torch.stack([x, 2 * x]))
    torch.testing.assert_close(made[1], F.rms_norm(2 * x, (8,), None, 1e-5))
    with pytest.raises(NotImplementedError, match="forward-mode"), forward_ad.dual_level():
        rms(forward_ad.make_dual(x, torch.ones_like(x)))
    with forward_ad.dual_level():
        torch.testing.assert_close(rms(x), F.rms_norm(x, (8,), None, 1e-5))


def test_compile_traces_the_operator(calls: Calls) -> None:
    x = known_twice(torch.randn(3, 8))
    before = calls.since()
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(rms, backend=backend, fullgraph=True)
    compiled(x)
    assert "kernelwright.rms_norm_forward" in graphs[0].code
    assert calls.since(before)[1] == 0


def test_autocast_is_part_of_the_kind(calls: Calls) -> None:
    x = torch.randn(3, 8, dtype=torch.bfloat16)
    for _ in range(3):
        assert softmax(x, 1).dtype == torch.bfloat16
        torch.set_autocast_enabled("cuda", True)
        try:
            assert softmax(x, 1).dtype == torch.float32
        finally:
            torch.set_autocast_enabled("cuda", False)


def test_inference_mode(calls: Calls) -> None:
    x = known_twice(torch.randn(3, 8).requires_grad_())
    for _ in range(3):
        with torch.inference_mode():
            assert rms(x).is_inference()
        assert not rms(x).is_inference()


KEPT = torch.randn(3, 8)


def by_a_flag(x: torch.Tensor) -> torch.Tensor:
    """As an operator that asks for something of torch's which may change."""
    watching.leave_to_python()
    return rms_norm(x, (8,))


@pytest.mark.parametrize(
    ("function", "launches"),
    [
        (lambda x: rms_norm(x, (8,)), (1, 2)),
        (lambda x: rms_norm(x.view(24).view(3, 8), (8,)), (1, 2)),
        (lambda x: rms_norm(x.t(), (3,)), (3, 0)),  # copied first
        (lambda x: rms_norm(x, (8,)) + 1, (3, 0)),
        (lambda x: rms_norm(x * 1, (8,)), (3, 0)),
        (lambda x: rms_norm(rms_norm(x, (8,)), (8,)), (6, 0)),
        (lambda x: rms_norm(KEPT, (8,)), (3, 0)),
        (lambda x: rms_norm(x, (8,)).clone(), (3, 0)),
        (lambda x: [rms_norm(x, (8,))], (3, 0)),
        (lambda x: x * 2, (0, 0)),
        (by_a_flag, (3, 0)),
    ],
)
def test_what_a_recipe_cannot_say_remains_python_s(
    function: Callable[..., Any], launches: tuple[int, int], calls: Calls
) -> None:
    monitored = extension.load().Replayed(function, record)
    # Only the function itself is replayed, and not what it calls.
    for one in replayed._FUNCTIONS:
        one.call = one.function
    before = calls.since()
    for _ in range(3):
        x = torch.randn(3, 8)
        ours, pythons = monitored(x), function(x)
        torch.testing.assert_close(ours, pythons)
    by_python, again = calls.since(before)
    assert (by_python - sum(launches), again) == launches  # as many were for comparison


def test_what_is_known_is_bounded(calls: Calls) -> None:
    x = torch.randn(3, 8)
    function: Any = next(one.call for one in replayed._FUNCTIONS if one.function.__name__ == "rms_norm")
    for number in range(4100):
        rms(x, 1e-5 * (number + 1))
    assert function.known() == 4
    torch.testing.assert_close(rms(x), F.rms_norm(x, (8,), None, 1e-5))


def test_without_a_compiler_calls_are_python_s_and_it_is_said_once(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENT_CACHE_DIR", str(tmp_path))

    def none() -> tuple[Path, str]:
        raise EnvironmentFault("there is no g++ on PATH")

    monkeypatch.setattr(toolchain, "compiler_here", none)
    routing.reset()
    with pytest.warns(
        replayed.NotReplaying, match=r"there is no g\+\+ on PATH; calls of kernels take the longer"
    ):
        assert not replayed.is_there()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replayed.load()
        before = calls.since()
        for _ in range(3):
            rms(torch.randn(3, 8))
    assert calls.since(before) == (3, 0)


def test_a_shipped_extension_needs_no_compiler(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = built.ship(extension.library(), tmp_path / "built")
    monkeypatch.setenv("AGENT_KERNELS_BUILT", str(tmp_path / "built"))
    monkeypatch.setattr(toolchain, "compiler_here", None)
    assert extension.library() == kept
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(built.BuildFault, match="is not the file that was built: ship replaying there again"):
        extension.library()


def test_a_setting_leaves_calls_to_python(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNELS_REPLAY", "0")
    routing.reset()
    replayed.load()
    before = calls.since()
    for _ in range(3):
        rms(torch.randn(3, 8))
    assert calls.since(before) == (3, 0)
    assert not replayed.is_there()
