"""Whose fault it is when the reference raises: the user's own code, or ours around it."""

import contextlib
import os
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

_OURS = str(Path(__file__).resolve().parents[2]) + os.sep


class ReferenceRaised(RuntimeError):
    """The user's own code raised; the message says what. Everything else that raises here is ours."""


@contextlib.contextmanager
def of_the_reference() -> Iterator[None]:
    """Around code that is the user's: what it raises becomes ReferenceRaised."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        # A dispatch mode of ours may be entered around the call.
        if traceback.extract_tb(error.__traceback__)[-1].filename.startswith(_OURS):
            raise
        raise ReferenceRaised(f"{type(error).__name__}: {error}") from error
