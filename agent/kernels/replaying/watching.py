"""Who watches the calls of this thread while they are recorded."""

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.kernels.replaying.recording import Recorder

_HERE = threading.local()


class StreamHandle(int):
    """Of the current stream: a call that is replayed takes the one that is current then."""


def recorder() -> "Recorder | None":
    """The recorder of this thread, where a call is being recorded."""
    return getattr(_HERE, "recorder", None)


def put(recorder: "Recorder | None") -> None:
    """Has it watch what this thread does; None: nobody does."""
    _HERE.recorder = recorder


def leave_to_python() -> None:
    """Says that what the call does depends on more than its kind: those of its kind are never replayed."""
    found = recorder()
    if found is not None:
        found.left_to_python()
