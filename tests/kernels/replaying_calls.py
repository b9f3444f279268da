"""Kernels on the host, so that calls on CPU tensors are recorded and replayed as those on a GPU are."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from agent.kernels import operators, routing
from agent.kernels.binding import Library
from agent.kernels.replaying import extension, replayed
from agent.kernels.rms_norm.operator import rms_norm

Call = Callable[..., Any]

SOURCE = Path(__file__).with_name("replaying_library.cpp")
KERNELS = ("rms_norm", "add_rms_norm", "softmax", "gate_product")


def compiled(folder: Path) -> dict[str, Path]:
    """A library for each of the kernels."""
    made = {kernel: folder / f"{kernel}.so" for kernel in KERNELS}
    for kernel, path in made.items():
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", f"-D{kernel}", SOURCE, "-o", path], check=True)
    return made


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Path]]:
    """Cache folder with the extension in it, and the libraries."""
    folder = tmp_path_factory.mktemp("replaying")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENT_CACHE_DIR", str(folder))
        extension.library()
    return folder, compiled(folder)


@pytest.fixture
def calls(built: tuple[Path, dict[str, Path]], monkeypatch: pytest.MonkeyPatch) -> "Calls":
    """What was launched by Python and what was replayed, of CPU tensors that take the way of CUDA ones."""
    monkeypatch.setenv("AGENT_CACHE_DIR", str(built[0]))
    made = Calls(built[1])
    sent_to_host(monkeypatch, made)
    return made


class Calls:
    """Counts launches: those by Python and all, of which the others were replayed."""

    def __init__(self, paths: dict[str, Path]) -> None:
        self._libraries = {kernel: _Counting(kernel, path, self) for kernel, path in paths.items()}
        self.by_python = self.all  # a library is loaded once, and goes on counting

    def library(self, kernel: str, device: int) -> Library:
        """As `routing.library`."""
        return self._libraries[kernel]

    @property
    def all(self) -> int:
        """Since the libraries were loaded."""
        return sum(library.ask("count", "q", 0) for library in self._libraries.values())

    def since(self, before: tuple[int, int] = (0, 0)) -> tuple[int, int]:
        """Launches by Python, and replayed ones."""
        return self.by_python - before[0], self.all - self.by_python - before[1]


class _Counting(Library):
    def __init__(self, name: str, path: Path, calls: Calls) -> None:
        super().__init__(name, path)
        self._calls = calls

    def launch(self, function: str, fields: str, *values: float) -> None:
        super().launch(function, fields, *values)
        self._calls.by_python += 1


def sent_to_host(monkeypatch: pytest.MonkeyPatch, calls: Calls) -> None:
    """CPU tensors take the way that CUDA ones take, and calls are replayed."""

    def free(*_: Any) -> None:
        return None

    monkeypatch.setattr(routing, "obstacle", free)
    monkeypatch.setattr(routing, "library", calls.library)
    monkeypatch.setattr(operators, "on_device", lambda x: True)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False)
    replayed.load()


def rms(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Over the last dimension."""
    return rms_norm(x, (x.shape[-1],), weight, 1e-5)


def rms_by_torch(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """The same by torch."""
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def silu_product(gate: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """What a gate makes, by torch."""
    return F.silu(gate) * value


def step(call: Call, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """Value and gradients, by gradients that are drawn from the values' shapes."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    made = call(*leaves)
    values = made if isinstance(made, tuple) else (made,)
    grads = [torch.sin(torch.arange(value.numel())).view_as(value).to(value.dtype) for value in values]
    return [*values, *torch.autograd.grad(values, leaves, grads)]


def assert_alike(ours: Any, torchs: Any) -> None:
    """Of tensors in the same order."""
    for one, other in zip(ours, torchs, strict=True):
        near = 2e-2 if one.dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(one, other, atol=near, rtol=near)


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Of normal numbers."""
    return torch.randn(*shape).to(dtype)
