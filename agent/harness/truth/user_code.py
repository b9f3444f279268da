"""Execution of the user's own code: attribution of its errors, and the inputs that it draws."""

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

_OURS = str(Path(__file__).resolve().parents[2]) + os.sep


class ReferenceRaised(RuntimeError):
    """Raised when the user's own code raised, with its message. Any other error here is this project's."""


@contextlib.contextmanager
def of_the_reference() -> Iterator[None]:
    """Raise ReferenceRaised for errors of the user's code inside."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        # A dispatch mode of this project may be active around the call.
        if traceback.extract_tb(error.__traceback__)[-1].filename.startswith(_OURS):
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
