"""Streams and events of the emulator, and its two streams that a call may run on by the judge's choice."""

import ctypes

SIDE_STREAMS = 0x53545245414D10, 0x53545245414D20
"""Their handles: no size, no address and no handle that the runtime makes."""


class StreamCalls:
    """The calls of CUDA's API for streams and events, by their handles; `_c` is the runtime library."""

    _c: ctypes.CDLL

    def new_stream(self) -> int:
        """The handle of a stream; 0 is the default one."""
        made = ctypes.c_void_p()
        self._c.cudaStreamCreate(ctypes.byref(made))
        return made.value or 0

    def stream(self) -> int:
        """torch's current stream in this thread."""
        return self._c.kw_current_stream() or 0

    def set_stream(self, handle: int) -> None:
        """Makes a stream torch's current one in this thread."""
        self._c.kw_set_current_stream(handle)

    def new_event(self) -> int:
        """Return the handle of a new event."""
        made = ctypes.c_void_p()
        self._c.cudaEventCreate(ctypes.byref(made))
        return made.value or 0

    def record_event(self, event: int, stream: int) -> None:
        """Let the event stand for the work that the stream has got so far."""
        self._c.cudaEventRecord(ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def wait_for_event(self, stream: int, event: int) -> None:
        """Let work that the stream gets from here on come after the event."""
        self._c.cudaStreamWaitEvent(ctypes.c_void_p(stream), ctypes.c_void_p(event), ctypes.c_uint(0))

    def wait_for_event_on_host(self, event: int) -> None:
        """Let the host wait for the event."""
        self._c.cudaEventSynchronize(ctypes.c_void_p(event))

    def wait_for_stream(self, stream: int) -> None:
        """Let the host wait for the work of the stream."""
        self._c.cudaStreamSynchronize(ctypes.c_void_p(stream))
