"""CUDA error codes in words: the fault of a candidate that each one indicates, and what to check.

The texts are those of `cudaGetErrorString`, the only information in a RuntimeError of torch. Codes that
concern the machine and not the candidate are left out.
"""

from typing import NamedTuple

from agent.torch_shim.finding_kinds import FindingKind


class CudaError(NamedTuple):
    """Meaning of one CUDA error code."""

    code: int
    name: str
    kind: str
    cause: str


_ERRORS = {
    "invalid argument": CudaError(
        1, "cudaErrorInvalidValue", FindingKind.ILLEGAL_LAUNCH,
        "a launch or a call of CUDA's API was given a value that it does not take, often more dynamic shared "
        "memory than 48 KB without cudaFuncSetAttribute",
    ),
    "out of memory": CudaError(
        2, "cudaErrorMemoryAllocation", "resource-limit", "the GPU's memory does not hold what was asked for"
    ),
    "invalid configuration argument": CudaError(
        9, "cudaErrorInvalidConfiguration", FindingKind.ILLEGAL_LAUNCH,
        "a block has more than 1024 threads, grid.y or grid.z is above 65535, or a size is 0",
    ),
    "invalid device function": CudaError(
        98, "cudaErrorInvalidDeviceFunction", "runtime-error",
        "the kernel was not compiled for this GPU: leave out -arch and -gencode flags",
    ),
    "no kernel image is available for execution on the device": CudaError(
        209, "cudaErrorNoKernelImageForDevice", "runtime-error",
        "the kernel was not compiled for this GPU: leave out -arch and -gencode flags",
    ),
    "an illegal memory access was encountered": CudaError(
        700, "cudaErrorIllegalAddress", FindingKind.ILLEGAL_ADDRESS,
        "a kernel read or wrote outside every tensor: a bounds test that is missing, an index that is "
        "wrong, or "
        "a pointer to host memory",
    ),
    "too many resources requested for launch": CudaError(
        701, "cudaErrorLaunchOutOfResources", FindingKind.ILLEGAL_LAUNCH,
        "the registers of all threads of a block do not fit: use fewer threads, or __launch_bounds__",
    ),
    "the launch timed out and was terminated": CudaError(
        702, "cudaErrorLaunchTimeout", "timeout", "a kernel did not end: an endless loop or a deadlock"
    ),
    "device-side assert triggered": CudaError(
        710, "cudaErrorAssert", FindingKind.DEVICE_ASSERT,
        "an assert in a kernel, or an index check of torch, failed",
    ),
    "misaligned address": CudaError(
        716, "cudaErrorMisalignedAddress", FindingKind.MISALIGNED_ACCESS,
        "a vector load or store (float4, half2) at an address that is no multiple of its size",
    ),
    "invalid address space": CudaError(
        717, "cudaErrorInvalidAddressSpace", FindingKind.ILLEGAL_ADDRESS,
        "a pointer of one kind of memory was used as one of another",
    ),
    "an illegal instruction was encountered": CudaError(
        715, "cudaErrorIllegalInstruction", FindingKind.ILLEGAL_ADDRESS,
        "a kernel jumped to what is no code: often a stack or a function pointer that was overwritten",
    ),
    "unspecified launch failure": CudaError(
        719, "cudaErrorLaunchFailure", FindingKind.ILLEGAL_ADDRESS,
        "a kernel failed without a code of its own: often an access outside shared memory",
    ),
    "too many blocks in cooperative launch": CudaError(
        720, "cudaErrorCooperativeLaunchTooLarge", FindingKind.ILLEGAL_LAUNCH,
        "a cooperative launch needs all its blocks on the GPU at once",
    ),
}  # fmt: skip


def of_text(message: str) -> CudaError | None:
    """Return the error that a message of torch or of the candidate names; None if there is none."""
    lowered = message.lower()
    if "cuda" not in lowered:
        return None
    return next((error for text, error in _ERRORS.items() if text in lowered), None)
