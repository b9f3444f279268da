"""State of the GPU while it is timed: clocks, power and the reasons for throttling, read through NVML.

A sample takes a fraction of a millisecond, so one can be taken after each timed call; nvidia-smi is too slow.
Samples are empty if NVML is missing or does not know this GPU. No verdict depends on them.
"""

import contextlib
import ctypes
from functools import cache
from typing import Any

import torch

_SM, _MEMORY, _TEMPERATURE = 1, 2, 0
REASONS = {
    0x4: "power cap", 0x8: "hardware slowdown", 0x20: "thermal limit (software)",
    0x40: "thermal limit (hardware)", 0x80: "external power brake",
}  # fmt: skip
"""Bits of NVML's clocks event reasons that explain clocks below the requested ones."""


class _Nvml:
    """NVML access to this process's current GPU. Raises OSError if NVML cannot be used."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._call("nvmlInit_v2")
        self._device = ctypes.c_void_p()
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self._device))

    def sample(self) -> dict[str, Any]:
        watts = self._number("nvmlDeviceGetPowerUsage") / 1000
        reasons = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetCurrentClocksThrottleReasons", self._device, ctypes.byref(reasons))
        return {
            "sm_mhz": float(self._number("nvmlDeviceGetClockInfo", _SM)),
            "watts": watts,
            "throttle": ", ".join(words for bit, words in REASONS.items() if reasons.value & bit),
        }

    def limits(self) -> dict[str, Any]:
        return {
            "sm_most_mhz": float(self._number("nvmlDeviceGetMaxClockInfo", _SM)),
            "memory_mhz": float(self._number("nvmlDeviceGetClockInfo", _MEMORY)),
            "celsius": float(self._number("nvmlDeviceGetTemperature", _TEMPERATURE)),
        }

    def _number(self, name: str, *which: int) -> int:
        found = ctypes.c_uint()
        self._call(name, self._device, *which, ctypes.byref(found))
        return found.value

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise OSError(f"{name} failed with NVML's code {code}")


@cache
def _nvml() -> _Nvml | None:
    # torch raises AssertionError or RuntimeError if it has no CUDA or no driver.
    with contextlib.suppress(OSError, AttributeError, AssertionError, RuntimeError):
        return _Nvml()
    return None


def sample() -> dict[str, Any]:
    """Return SM clock in MHz, power in W and the throttling reasons, or {} if NVML reports none."""
    nvml = _nvml()
    with contextlib.suppress(OSError, AttributeError):
        return nvml.sample() if nvml else {}
    return {}


def card() -> dict[str, Any]:
    """Return the present values of the fields of `records.Card`, or {} if NVML does not report them."""
    nvml = _nvml()
    with contextlib.suppress(OSError, AttributeError):
        return nvml.sample() | nvml.limits() if nvml else {}
    return {}
