"""Current thread's recorder, if the thread's calls are being recorded."""

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.kernels.replaying.recording import Recorder

_HERE = threading.local()


class StreamHandle(int):
    """Handle of the current stream. A replayed call uses the stream that is current when it is replayed."""


def recorder() -> "Recorder | None":
    """Return the recorder of this thread, or None if no call is being recorded."""
    return getattr(_HERE, "recorder", None)


def put(recorder: "Recorder | None") -> None:
    """Set the recorder of this thread; None ends recording."""
    _HERE.recorder = recorder


def leave_to_python() -> None:
    """Exclude the kind of the current call from replay, because its work depends on more than the kind."""
    found = recorder()
    if found is not None:
        found.left_to_python()
