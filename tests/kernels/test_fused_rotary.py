"""Rotary embedding as models write it; and pairs of attention in half precision and compiled."""

import copy
import math
from typing import Any

import pytest
import torch
from kernels.fused_models import K, OfHeads, Q, alike, counted_calls
from torch import nn

from agent.kernels import replace_modules, rotary, routing
from agent.kernels.fusing import rotations

pytestmark = pytest.mark.usefixtures("taken")


def _masked(m: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.softmax((q @ k.mT * m.scale).masked_fill(m.ahead, -math.inf), dim=-1)


def _tables(m: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.outer(torch.arange(x.shape[-2], device=x.device, dtype=m.speeds.dtype), m.speeds)
    return angles.cos(), angles.sin()


def _chunks(m: Any, x: torch.Tensor) -> torch.Tensor:
    cos, sin = _tables(m, x)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def _slices(m: Any, x: torch.Tensor) -> torch.Tensor:
    cos, sin = _tables(m, x)
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([cos * a - sin * b, a * sin + b * cos], -1)


def _interleaved(m: Any, x: torch.Tensor) -> torch.Tensor:
    cos, sin = (one[None, None] for one in _tables(m, x))
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def _rotate_half(x: torch.Tensor) -> torch.Tensor:
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-b, a), dim=-1)


def _whole_tables(m: Any, x: torch.Tensor) -> torch.Tensor:
    angles = torch.outer(torch.arange(x.size(-2), device=x.device, dtype=m.speeds.dtype), m.speeds)
    angles = torch.cat((angles, angles), dim=-1)
    cos, sin = (one.to(x.dtype)[None].unsqueeze(1) for one in (angles.cos() * 1.0, angles.sin()))
    return (x * cos) + (_rotate_half(x) * sin)


def _number(m: Any, x: torch.Tensor) -> torch.Tensor:
    """Of the first six elements four are turned; the positions lie along another dimension."""
    cos, sin = (one[:, :3] for one in _tables(m, x))
    y = x.transpose(1, 2)[..., :6]
    a, b = y[..., :3], y[..., 3:]
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


WAYS = {
    "chunks": _chunks, "slices": _slices, "interleaved": _interleaved, "whole tables": _whole_tables,
    "a number": _number,
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_rotary_embedding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = OfHeads(lambda m, q, k: (WAYS[name](m, q), WAYS[name](m, k)))
    native = copy.deepcopy(model)
    done = replace_modules(model, (Q, K))
    wanted = "rotary embedding, whole tables" if name == "whole tables" else "rotary embedding"
    assert [fusion.pattern for fusion in done.fused.values()] == [wanted] * 2, done
    assert all(" + ... + " in label for label in done.fused)
    seen = counted_calls(monkeypatch, rotations, "rotary", rotary)
    alike(model, native, Q, K)
    alike(model, native, Q[:, :, :1], K[:, :, :1])
    options = {"dim": -3 if name == "a number" else -2, "interleaved": name == "interleaved"}
    assert seen[:2] == [options] * 2


class Tables(nn.Module):
    """Cosines and sines of every position, made once for all layers."""

    def __init__(self) -> None:
        super().__init__()
        self.speeds: torch.Tensor
        self.register_buffer("speeds", 100.0 ** -torch.linspace(0, 1, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.arange(x.shape[-2], device=x.device, dtype=x.dtype)[None]
        angles = (self.speeds[None, :, None] @ places[:, None, :]).transpose(1, 2)
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()


class Turning(nn.Module):
    def forward(self, x: torch.Tensor, tables: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        cos, sin = tables
        return x * cos.unsqueeze(1) + _rotate_half(x) * sin.unsqueeze(1)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables, self.layers = Tables(), nn.ModuleList([Turning(), Turning()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tables = self.tables(x)
        for layer in self.layers:
            x = layer(x, tables=tables) * 2
        return x


def test_tables_that_another_module_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither module alone shows that their halves are the same; a layer called by itself has no pair."""
    model = nn.Sequential(nn.Linear(8, 8), Layers())
    native = copy.deepcopy(model)
    layers = [one.get_submodule("1.layers.0") for one in (model, native)]
    done = replace_modules(model, Q)
    assert list(done.fused) == [
        "1: layers.0.mul + ... + layers.0.add", "1: layers.1.mul + ... + layers.1.add"
    ]  # fmt: skip
    seen = counted_calls(monkeypatch, rotations, "rotary", rotary)
    alike(model, native, Q)
    assert len(seen) == 2
    x = Q.double()
    torch.testing.assert_close(*(layer(x, (x[:, 0], x[:, 1])) for layer in layers))
    assert len(seen) == 2


def test_whole_tables_of_unknown_halves_stay() -> None:
    """Their second half may be another one in the next call."""

    def body(m: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return q * k[0, 0] + _rotate_half(q) * k[1, 1]

    assert replace_modules(OfHeads(body), (Q, K)).fused == {}


def test_a_turn_the_other_way_is_none() -> None:
    def body(m: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        cos, sin = _tables(m, q)
        a, b = q.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + b * sin), dim=-1) + k

    assert replace_modules(OfHeads(body), (Q, K)).fused == {}


def test_tables_of_each_image_of_a_batch_are_torchs_also_in_a_later_call() -> None:
    def body(m: Any, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        a, b = q.chunk(2, dim=-1)
        cos, sin = k[..., :4], k[..., 4:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    model = OfHeads(body)
    native = copy.deepcopy(model)
    assert replace_modules(model, (Q, K)).fused == {}
    done = replace_modules(model, (Q, K[:1, :1]))
    assert len(done.fused) == 1
    torch.testing.assert_close(model(Q, K), native(Q, K))
    with torch.no_grad():
        torch.testing.assert_close(model(Q.half(), K[0, 0]), native(Q.half(), K[0, 0]))
    assert routing.fallbacks("rotary") == {}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    """Checked in that dtype when it is swapped in; within a few roundings of the operators' results."""
    bodies = [_masked, lambda m, q, k: (_whole_tables(m, q), _chunks(m, k))]
    for body in bodies:
        model = OfHeads(body).to(dtype)
        wanted = model(Q.to(dtype), K.to(dtype))
        assert replace_modules(model, (Q.to(dtype), K.to(dtype))).fused
        torch.testing.assert_close(model(Q.to(dtype), K.to(dtype)), wanted, rtol=2e-2, atol=2e-2)


def test_compiled_whole() -> None:
    torch._dynamo.reset()

    def body(m: Any, q: torch.Tensor, k: torch.Tensor) -> Any:
        return _masked(m, _chunks(m, q), _whole_tables(m, k))

    model = OfHeads(body)
    native = copy.deepcopy(model)
    assert len(replace_modules(model, (Q, K)).fused) == 3
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(Q, K), native(Q, K))
