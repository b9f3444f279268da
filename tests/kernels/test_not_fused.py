"""What `replace_modules` does not fuse, though a pair stands there: it stays as it was, and says why."""

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from agent.kernels import replace_modules, routing
from agent.kernels.fusing import patterns
from agent.kernels.group_norm.operator import group_norm

pytestmark = pytest.mark.usefixtures("taken")
X = torch.linspace(-2, 3, 2 * 4 * 33).view(2, 4, 33)


class Odd(nn.Module):
    """One norm, an activation, and a body that is written in each test's line."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.norm, self.act, self.count, self.body = nn.GroupNorm(2, 4), nn.SiLU(inplace=True), 0, body
        self.register_buffer("seen", torch.zeros(4, 1))

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(self, x)


def _without_gradients(m: Any, x: torch.Tensor) -> Any:
    with torch.no_grad():
        scale = x * 2
    return m.act(m.norm(x)) * scale


def _counting(m: Any, x: torch.Tensor) -> Any:
    m.count += 1
    return m.act(m.norm(x))


def _writing_to_its_input(m: Any, x: torch.Tensor) -> Any:
    h = m.norm(x)
    x += 1
    return m.act(h) + x


STAY: dict[str, tuple[Callable[..., Any], str]] = {
    "a branch on values": (lambda m, x: m.act(m.norm(x)) if x.sum() > 0 else x, "its forward does not trace"),
    "a mode": (_without_gradients, "its forward changes a mode of torch"),
    "a checkpoint": (
        lambda m, x: torch.utils.checkpoint.checkpoint(lambda y: m.act(m.norm(y)), x, use_reentrant=False),
        "its forward",
    ),
    "a mode that is asked for": (
        lambda m, x: m.act(m.norm(x)) * (2 if torch.is_grad_enabled() else 1), "asks for torch's modes"
    ),
    "training that is asked for": (
        lambda m, x: m.act(m.norm(x)) * (2 if m.training else 1), "does other things in training"
    ),
    "an attribute": (_counting, "its forward changes attributes of Odd"),
    "a buffer": (
        lambda m, x: (m.seen.add_(1), m.act(m.norm(x)))[1], "its forward writes to its buffers"
    ),
    "numbers of Python": (lambda m, x: m.act(m.norm(x)) * random.random(), "draws random numbers"),
    "a tensor of its own": (lambda m, x: m.act(m.norm(x)) + torch.ones(1), "makes a tensor"),
    "used elsewhere": (lambda m, x: F.silu(h := m.norm(x)) + h, "what lies between is used elsewhere too"),
    "an input in place": (_writing_to_its_input, "a tensor is changed in place between"),
    "another shape": (lambda m, x: m.norm(x) + m.seen, "its tensors have the shapes (2, 4, 33) and (4, 1)"),
}  # fmt: skip


@pytest.mark.parametrize("name", STAY)
def test_what_stays_is_as_it_was_and_says_why(name: str) -> None:
    body, reason = STAY[name]
    odd = Odd(body)
    model = nn.Sequential(odd, nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU()))
    random.seed(4)
    wanted = model(X.clone())
    done = replace_modules(model, (X,))
    assert re.search(re.escape(reason), str(done.kept)), done.kept
    assert list(done.fused) == ["1: 0 + 1"]
    assert type(odd) is Odd
    assert not [name for name in vars(odd) if name.startswith("_tensor_constant")]
    random.seed(4)
    odd.get_buffer("seen").zero_()
    torch.testing.assert_close(model(X.clone()), wanted)


def _making_buffers(m: Any, x: torch.Tensor) -> Any:
    m.register_buffer("seen", torch.ones(4, m.seen.shape[1] + 1))
    m.register_buffer("made", torch.ones(1))
    return m.act(m.norm(x))


def test_buffers_that_a_forward_makes_and_replaces_end_as_they_were() -> None:
    odd = Odd(_making_buffers)
    seen = odd.get_buffer("seen")
    done = replace_modules(nn.Sequential(odd, nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU())), X)
    assert list(done.fused) == ["1: 0 + 1"]
    assert [name for name, _ in odd.named_buffers()] == ["seen"]
    assert odd.get_buffer("seen") is seen
    assert torch.equal(seen, torch.zeros(4, 1))


def test_looked_at_modules_and_others_kinds_stay() -> None:
    class Own(nn.GroupNorm):
        pass

    pairs = [nn.Sequential(kind(2, 4), nn.SiLU()) for kind in (nn.GroupNorm, Own)]
    pairs[0][1].register_forward_hook(lambda *_: None)
    pairs.append(nn.Sequential(nn.GroupNorm(2, 4), nn.Softplus()))
    done = replace_modules(nn.Sequential(*pairs), X)
    assert done.fused == {}
    assert done.kept["0: 0 + 1"] == "a module of it has hooks"
    assert done.kept["1.0"] == "it is a Own, which may do more than GroupNorm"


@pytest.mark.parametrize("wrong", ["value", "gradient", "raises"])
def test_a_wrong_kernel_is_not_swapped_in(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    def bad(x: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
        if wrong == "raises":
            raise RuntimeError("no\nlaunch")
        y = group_norm(x, *rest, **options)
        return y * 1.001 if wrong == "value" else y + (x - x.detach())

    monkeypatch.setattr(patterns, "group_norm", bad)
    model = nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU())
    done = replace_modules(model, X)
    assert done.fused == {}
    wanted = "RuntimeError: no launch" if wrong == "raises" else "off by .* where the pair is off by"
    assert re.fullmatch(wanted, done.kept["the model itself: 0 + 1"]) or wrong != "raises"
    assert re.match(wanted, done.kept["the model itself: 0 + 1"])
    assert type(model) is nn.Sequential


def test_an_example_that_the_model_does_not_take_changes_nothing() -> None:
    model = nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU())
    with pytest.raises(ValueError, match="does not take the example inputs: RuntimeError") as caught:
        replace_modules(model, torch.ones(2, 3, 5))
    assert "\n" not in str(caught.value)
    assert [type(module) for module in model.modules()] == [nn.Sequential, nn.GroupNorm, nn.SiLU]


def test_strict_keeps_what_the_kernel_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "obstacle", lambda *_: "it is a Tuesday")
    monkeypatch.setenv("AGENT_KERNELS_STRICT", "1")
    routing.reset()
    done = replace_modules(nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU()), X)
    assert done.fused == {}
    assert "it is a Tuesday" in done.kept["the model itself: 0 + 1"]
