"""The emulator's two streams that a call may run on, by the judge's choice."""

SIDE_STREAMS = 0x1010, 0x1020
"""Their handles: the first two that a process makes."""
