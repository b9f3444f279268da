"""Compute capability of the first visible GPU, from the driver, because importing torch takes seconds."""

import ctypes

_MAJOR, _MINOR = 75, 76
"""Device attributes in cuda.h that hold the compute capability."""


def capability() -> tuple[int, int] | None:
    """Return the compute capability, such as (9, 0); None if no GPU answers."""
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
