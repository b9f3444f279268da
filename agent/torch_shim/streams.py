"""The emulator's two streams that a call may run on, by the judge's choice."""

SIDE_STREAMS = 0x53545245414D10, 0x53545245414D20
"""Their handles: no size, no address and no handle that the runtime makes."""
