"""What the first GPU that this process may see can do, by the driver alone: torch takes seconds to start."""

import ctypes

_MAJOR, _MINOR = 75, 76
"""Attributes of a device in cuda.h: its compute capability."""


def capability() -> tuple[int, int] | None:
    """Compute capability, as (9, 0); None where no GPU answers."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, found = ctypes.c_int(), (ctypes.c_int(), ctypes.c_int())
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    for attribute, value in zip((_MAJOR, _MINOR), found, strict=True):
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            return None
    return found[0].value, found[1].value
