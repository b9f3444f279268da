"""What a call of a kernel's launcher is compared with: the fields of its struct, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from agent.kernels import routing

KERNELS = Path(routing.__file__).parent
ANY = object()
"""An address of memory that the call keeps to itself."""
Values = dict[str, Any]
Expected = dict[str, Values]
"""By function: what each field has to be."""


@dataclass(frozen=True)
class Case:
    """The calls of one kernel; `structs` says where the arguments of a function are declared."""

    calls: Callable[[], Expected]
    structs: dict[str, tuple[Path, str]]


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype)


def named(**values: Any) -> Values:
    """With a tensor's address for a tensor."""
    return {
        name: value.data_ptr() if isinstance(value, torch.Tensor) else value for name, value in values.items()
    }


def operator_of(kernel: str) -> Any:
    return import_module(f"agent.kernels.{kernel}.operator")


def both(source: Path, forward: str = "Forward", backward: str = "Backward") -> dict[str, tuple[Path, str]]:
    return {"Forward": (source, forward), "Backward": (source, backward), "Split": (source, "Split")}


def launch(kernel: str) -> Path:
    return KERNELS / kernel / "csrc/launch.cuh"
