"""Pairs that one kernel computes: found in a model, checked on its example, swapped, and put back."""

import copy
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from agent.kernels import replace_modules
from agent.kernels.fusing import patterns
from agent.kernels.group_norm.operator import group_norm
from agent.kernels.replaced import Gain

pytestmark = pytest.mark.usefixtures("taken")
X = torch.linspace(-2, 3, 2 * 4 * 33).view(2, 4, 33)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(2, 4), nn.GroupNorm(4, 4)
        self.conv, self.act, self.rate = nn.Conv1d(4, 4, 3, padding=1), nn.SiLU(), 0.5

    def forward(self, x: torch.Tensor, t: torch.Tensor | None = None, *, scale: float = 1.0) -> torch.Tensor:
        h = self.norm1(x)
        h = self.conv(h * torch.sigmoid(h))
        if t is not None:
            h = h + t
        h = F.dropout(h, self.rate, self.training)
        y: torch.Tensor = self.act(self.norm2(h) + x)
        return y * scale


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.last = nn.Sequential(nn.BatchNorm1d(4), nn.GroupNorm(2, 4), nn.ReLU(inplace=True))

    def forward(self, x: torch.Tensor, n: int = 2) -> dict[str, torch.Tensor]:
        for block in self.blocks[:n]:
            x = block(x, scale=0.5)
        return {"out": self.last(x)}


def step(model: Any, **kwargs: Any) -> list[torch.Tensor]:
    """Value and gradients in float64, with the same random numbers each time."""
    torch.manual_seed(3)
    value = model.double()(X.double(), **kwargs)
    value = value["out"] if isinstance(value, dict) else value
    return [value, *torch.autograd.grad(value.square().sum(), list(model.parameters()), allow_unused=True)]


def fused_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The activations of the fused calls that were made since."""
    seen: list[str] = []

    def counted(*args: Any, act: str, **options: Any) -> torch.Tensor:
        seen.append(act)
        return group_norm(*args, act=act, **options)

    monkeypatch.setattr(patterns, "group_norm", counted)
    return seen


def test_a_model_is_fused_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Net()
    native = copy.deepcopy(model)
    modules, state, numbers = list(model.modules()), list(model.state_dict()), torch.get_rng_state()
    done = replace_modules(model, X)
    assert torch.equal(torch.get_rng_state(), numbers)
    torch.testing.assert_close(model.state_dict(), native.state_dict(), rtol=0, atol=0)
    assert list(done.fused) == [
        "blocks.0: norm1 + sigmoid + mul", "blocks.0: norm2 + add + act",
        "blocks.1: norm1 + sigmoid + mul", "blocks.1: norm2 + add + act", "last: 1 + 2",
    ]  # fmt: skip
    assert not any(name.startswith("last") for name in done.kept)
    assert replace_modules(model, X).fused == {}
    assert done.difference is not None
    assert 0 < done.difference < 1e-4
    assert "last: 1 + 2: one call of group_norm; not measured: no GPU; error" in str(done)
    assert list(model.state_dict()) == state
    assert isinstance(model.blocks[0], Block)
    calls = fused_calls(monkeypatch)
    for training in (True, False):
        calls.clear()
        torch.testing.assert_close(step(model.train(training)), step(native.train(training)))
        assert calls == ["silu"] * 4 + ["relu"]
    done.restore()
    assert [type(module) for module in model.modules()] == [type(module) for module in native.modules()]
    assert all(one is two for one, two in zip(model.modules(), modules, strict=True))
    calls.clear()
    torch.testing.assert_close(step(model), step(native))
    assert calls == []


def test_copies_are_fused_and_files_are_not() -> None:
    model = nn.Sequential(nn.GroupNorm(2, 4), nn.GELU())
    wanted = model(X)
    replace_modules(model, (X,))
    assert type(copy.deepcopy(model)) is type(model)
    torch.testing.assert_close(copy.deepcopy(model)(X), wanted)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is nn.Sequential
    torch.testing.assert_close(loaded(X), wanted)
    torch.testing.assert_close(model[:1](X), model[0](X))


class Shaped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, pair: tuple[torch.Tensor, torch.Tensor], *more: Any, **named: Any) -> Any:
        one, two = pair
        return {"out": [F.relu(self.norm(one)) + two], "pair": (one, 1)}


def test_inputs_and_outputs_of_any_shape() -> None:
    model = Shaped()
    wanted = model((X, X))
    assert list(replace_modules(model, ((X, X),)).fused) == ["the model itself: norm + relu"]
    for call in (model((X, X)), model((X, X), 3)):
        torch.testing.assert_close(call["out"], wanted["out"])
        assert call["pair"][1] == 1


def test_compiled_whole_with_gradients() -> None:
    torch._dynamo.reset()
    model = Net().eval()
    native = copy.deepcopy(model)
    replace_modules(model, {"x": X})
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(step(compiled), step(native))


def test_a_call_of_another_form_takes_the_forward_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Block().eval()
    native = copy.deepcopy(block)
    replace_modules(block, (X,))
    calls = fused_calls(monkeypatch)
    changes: list[tuple[Callable[[nn.Module], object], dict[str, Any]]] = [
        (lambda _: None, {"t": X.double()}),
        (lambda _: None, {"scale": 2.0}),
        (lambda m: setattr(m, "rate", 0.25), {}),
        (lambda m: setattr(m, "act", nn.Tanh()), {}),
        (lambda m: setattr(m, "extra", nn.Tanh()), {}),
    ]
    for change, named in changes:
        one, two = copy.deepcopy(block), copy.deepcopy(native)
        change(one)
        change(two)
        torch.testing.assert_close(step(one, **named), step(two, **named))
    assert set(calls) <= {"none"}
    seen: list[torch.Tensor] = []
    block.norm1.register_forward_hook(lambda *given: seen.append(given[2]))
    block(X)
    torch.testing.assert_close(seen, [native.norm1(X)])
    assert set(calls) <= {"none"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"):
        block(X, wrong=1)


def test_what_is_slower_stays() -> None:
    gain = Gain("a GPU", 1.0, 0.5, 2.0, 3.0)
    assert gain.loss(training=False) is None
    assert gain.loss(training=True) == "slower here: forward and backward 3 ms instead of 2"


DISTRIBUTED = """
import copy, os, sys, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from agent.kernels import replace_modules, routing
routing.obstacle = lambda *_: None
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
torch.manual_seed(0)
first = nn.Sequential(nn.Conv1d(4, 4, 3), nn.GroupNorm(2, 4))
model = nn.Sequential(first, nn.SiLU(), nn.GroupNorm(4, 4), nn.ReLU())
native = DistributedDataParallel(copy.deepcopy(model))
print(list(replace_modules(model, torch.ones(2, 4, 9)).fused))
ours = DistributedDataParallel(model)
x = torch.randn(3, 4, 17) + rank
native(x).square().sum().backward()
for network in (ours, torch.compile(ours, backend="aot_eager")):
    ours.zero_grad()
    network(x).square().sum().backward()
    torch.testing.assert_close([p.grad for p in ours.parameters()], [p.grad for p in native.parameters()])
assert list(ours.state_dict()) == list(native.state_dict())
dist.barrier()  # a process whose peer has gone may abort
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # torch's threads, which may still run, have aborted a process at its end
"""


def test_two_processes_of_ddp(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DISTRIBUTED]
    # The loopback: this machine may have no other address.
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "meeting")], stdout=-1, stderr=-1, text=True, env=environment
        )
        for rank in range(2)
    ]
    for process in processes:
        said, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint
        assert said.strip() == "['the model itself: 0.1 + 1', 'the model itself: 2 + 3']"
