"""Execution of the user's own code: attribution of its errors, and the inputs that it draws."""

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from agent.harness.truth import float64

_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_AROUND = (__file__, float64.__file__)
"""Files with modes that pass the user's calls on. Their errors are the user's."""


class ReferenceRaised(RuntimeError):
    """Raised when the user's own code raised, with its message. Any other error here is this project's."""


class _OnCpu(TorchFunctionMode):
    """Replacement of the device `cuda` by the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        named = {"device": kwargs["device"]} if kwargs and "device" in kwargs else {}
        if any(map(_is_cuda, (*args[:2], *named.values()))):
            args = tuple("cpu" if _is_cuda(value) else value for value in args)
            kwargs = {**(kwargs or {}), **dict.fromkeys(named, "cpu")}
        return func(*args, **(kwargs or {}))


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.partition(":")[0] == "cuda"


_named = {"cuda": False}
"""True if the user's code names a GPU that this machine lacks."""


def note_devices(source: str) -> None:
    """Note if the code makes tensors on a GPU and there is none."""
    _named["cuda"] = "cuda" in source and not torch.cuda.is_available()


@contextlib.contextmanager
def of_the_reference() -> Iterator[None]:
    """Raise ReferenceRaised for errors of the user's code inside.

    Without a GPU, tensors that code which names one makes there are made on the CPU.
    """
    try:
        with _OnCpu() if _named["cuda"] else contextlib.nullcontext():
            yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        # A dispatch mode of this project may be active around the call.
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename not in _AROUND]
        if frames and frames[-1].filename.startswith(_OURS):
            raise
        raise ReferenceRaised(f"{type(error).__name__}: {error}") from error


def drawn(get_inputs: Callable[[], Any], device: str, seed: int) -> list[Any]:
    """Return the inputs that `get_inputs` draws after seeding torch with `seed`, on the device."""
    torch.manual_seed(seed)
    if device == "cuda":
        try:
            with of_the_reference(), torch.device("cuda"):
                return list(tree_map_only(torch.Tensor, torch.Tensor.cuda, get_inputs()))
        except RuntimeError:
            # An input made from numpy or from a CPU generator cannot be drawn on the GPU.
            torch.manual_seed(seed)
    with of_the_reference():
        return list(tree_map_only(torch.Tensor, lambda t: t.to(device), get_inputs()))
