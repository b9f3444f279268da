"""Streams and events of the emulator, and the two side streams from which the judge chooses for a call."""

import ctypes

SIDE_STREAMS = 0x53545245414D10, 0x53545245414D20
"""Handles of the side streams, which differ from all sizes, addresses and handles of the runtime."""


class StreamCalls:
    """Methods that call CUDA's API for streams and events by handle, in the runtime library `_c`."""

    _c: ctypes.CDLL

    def new_stream(self) -> int:
        """Return the handle of a new stream; 0 is the default stream."""
        made = ctypes.c_void_p()
        self._c.cudaStreamCreate(ctypes.byref(made))
        return made.value or 0

    def stream(self) -> int:
        """Return the handle of torch's current stream in this thread."""
        return self._c.kw_current_stream() or 0

    def set_stream(self, handle: int) -> None:
        """Make the stream torch's current stream in this thread."""
        self._c.kw_set_current_stream(handle)

    def new_event(self) -> int:
        """Return the handle of a new event."""
        made = ctypes.c_void_p()
        self._c.cudaEventCreate(ctypes.byref(made))
        return made.value or 0

    def record_event(self, event: int, stream: int) -> None:
        """Record the event after the work submitted to the stream so far."""
        self._c.cudaEventRecord(ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def wait_for_event(self, stream: int, event: int) -> None:
        """Make work submitted to the stream from now on wait for the event."""
        self._c.cudaStreamWaitEvent(ctypes.c_void_p(stream), ctypes.c_void_p(event), ctypes.c_uint(0))

    def wait_for_event_on_host(self, event: int) -> None:
        """Make the host wait for the event."""
        self._c.cudaEventSynchronize(ctypes.c_void_p(event))

    def wait_for_stream(self, stream: int) -> None:
        """Make the host wait for the work of the stream."""
        self._c.cudaStreamSynchronize(ctypes.c_void_p(stream))
