# ruff: noqa: E501
# fmt: off
"""Python view of the emulator's C and C++ interfaces. Generated: do not edit.

Written by `python -m agent.contracts` from kw/runtime.h, kw/host_abi.h, kw/host_scalars.h, kw/device_limits.h,
kw/torch_bridge.h, kw/device.h and runtime/*.h. It imports the standard library alone.
"""

import ctypes
import enum
from typing import Any

Prototypes = dict[str, tuple[Any, list[Any]]]


def declare(library: ctypes.CDLL, prototypes: Prototypes) -> None:
    """Set the types of a loaded library's functions. Raises AttributeError if the library lacks one."""
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


# kw/runtime.h, kw/host_abi.h, kw/torch_bridge.h
TORCH_MEMORY = "libkw_torch.so"
LARGEST_ARENA = 1099511627776
ABI_VERSION = 1480084132
MAX_DIMS = 16
EXTENSION_MODULE = "kw_extension"
FRESH_BYTE = 255
LARGEST_LITERAL = 8388608
SAMPLED_BYTES = 1048576
UNLOCATED_LINE = 1000000
RUNNING_BYTES = 512
SHARED_LIMIT_ATTRIBUTE = 8
HOST_TO_DEVICE = 1
MEMORY_ONES = 0
MEMORY_HUGE = 1
MEMORY_HUGE_NEGATIVE = 2
MEMORY_LEAST = 3
MEMORY_USED = 4
ORDER_FORWARD = 0
ORDER_REVERSE = 1
ORDER_SHUFFLED = 2
ORDER_INTERLEAVED = 3
SAMPLE_OFF = 0
SAMPLE_ZEROS = 1
SAMPLE_NUMBERS = 2
SAMPLE_HOST_ONLY = 3

# kw/device_limits.h
COMPUTE_MAJOR = 9
COMPUTE_MINOR = 0
MULTIPROCESSORS = 132
WARP_SIZE = 32
MAX_THREADS = 1024
MAX_BLOCK_X = 1024
MAX_BLOCK_Y = 1024
MAX_BLOCK_Z = 64
MAX_GRID_X = 2147483647
MAX_GRID_Y = 65535
MAX_GRID_Z = 65535
THREADS_PER_MULTIPROCESSOR = 2048
BLOCKS_PER_MULTIPROCESSOR = 32
REGISTERS_PER_MULTIPROCESSOR = 65536
DEFAULT_SHARED_LIMIT = 49152
OPT_IN_SHARED_LIMIT = 232448
SHARED_PER_MULTIPROCESSOR = 233472
RESERVED_SHARED_PER_BLOCK = 1024
CONSTANT_MEMORY = 65536
GLOBAL_MEMORY = 85899345920
L2_CACHE_BYTES = 52428800


class Tag(enum.IntEnum):
    """Mirror of `kw_tag`."""

    ABSENT = 0
    NONE = 1
    TENSOR = 2
    INT = 3
    FLOAT = 4
    BOOL = 5
    STRING = 6
    LIST = 7
    TUPLE = 8
    DTYPE = 9
    DEVICE_NAME = 10
    MEMORY_FORMAT = 11
    LAYOUT = 12
    SLICE = 13
    ELLIPSIS = 14
    OPTIONS = 15
    OTHER = 16


class Flag(enum.IntEnum):
    """Mirror of `kw_flag`."""

    REQUIRES_GRAD = 1
    CONTIGUOUS = 2
    CHANNELS_LAST = 4


class Status(enum.IntEnum):
    """Mirror of `kw_status`."""

    OK = 0
    MISMATCH = 1
    RUNTIME_ERROR = 2
    VALUE_ERROR = 3
    TYPE_ERROR = 4
    INDEX_ERROR = 5
    NOT_IMPLEMENTED = 6


class ScalarType(enum.IntEnum):
    """Mirror of `ScalarType`."""

    Byte = 0
    Char = 1
    Short = 2
    Int = 3
    Long = 4
    Half = 5
    Float = 6
    Double = 7
    Bool = 11
    BFloat16 = 15
    ComplexHalf = 8
    ComplexFloat = 9
    ComplexDouble = 10
    Undefined = 127


class MemoryFormat(enum.IntEnum):
    """Mirror of `MemoryFormat`."""

    Contiguous = 0
    Preserve = 1
    ChannelsLast = 2
    ChannelsLast3d = 3


# Prefix of the symbols through which kw/device.h enters an extension to launch.
LAUNCH_ENTRY = "_ZN2kw12launch_entryI"

# Reasons to refuse a launch (runtime/launch_words.h), as patterns for their numbers.
REFUSED_EMPTY_LAUNCH = r'grid \((\d+), (\d+), (\d+)\) and block \((\d+), (\d+), (\d+)\): no size may be 0'
REFUSED_LARGE_BLOCK = r'block \((\d+), (\d+), (\d+)\) has (\d+) threads; the limit is (\d+) threads \(x and y up to (\d+), z up to (\d+)\)'
REFUSED_LARGE_GRID = r'grid \((\d+), (\d+), (\d+)\); the limits are x (\d+), y (\d+) and z (\d+)'
REFUSED_SHARED_BEYOND_DEVICE = r'(\d+) bytes of dynamic shared memory; a block cannot have more than (\d+)'
REFUSED_SHARED_BEYOND_ASKED = r'(\d+) bytes of dynamic shared memory; the limit is (\d+), as set with cudaFuncSetAttribute'
REFUSED_SHARED_BEYOND_DEFAULT = r'(\d+) bytes of dynamic shared memory; the limit is (\d+) unless cudaFuncSetAttribute\(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes\) raises it'
REFUSED_LARGE_CLUSTER = r'A cluster of (\d+) blocks: more than (\d+) need cudaFuncSetAttribute with cudaFuncAttributeNonPortableClusterSizeAllowed\.'
REFUSED_BAD_CLUSTER = r'clusters of \((\d+),(\d+),(\d+)\) blocks in a grid of \((\d+),(\d+),(\d+)\); they have to divide it, with at most (\d+) blocks each'
REFUSED_TOO_MANY_AT_ONCE = r'(\d+) blocks of (\d+) threads at once; a cooperative launch may have (\d+)'

# Keys of each line in the runtime's record (runtime/json_formats.h), by the line's `do`.
RECORD_EVENTS: dict[str, frozenset[str]] = {
    "allocate": frozenset(("do", "to", "bytes",)),
    "write": frozenset(("do", "to", "bytes", "data",)),
    "move": frozenset(("do", "to", "from", "bytes",)),
    "fill": frozenset(("do", "to", "bytes", "data",)),
    "launch": frozenset(("do", "entry", "name", "grid", "block", "shared", "line", "cooperative", "cluster", "arguments", "words",)),
    "lost": frozenset(("do",)),
}

CLaunchRequest_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class CLaunchRequest(ctypes.Structure):
    """Mirror of `kw_launch_request`."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("line", ctypes.c_int),
        ("by_pointer", ctypes.c_int),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_bytes", ctypes.c_size_t),
        ("entry", CLaunchRequest_ENTRY),
        ("arguments", ctypes.c_void_p),
        ("argument_bytes", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("cooperative", ctypes.c_int),
        ("cluster", ctypes.c_uint * 3),
    ]


class CTensor(ctypes.Structure):
    """Mirror of `kw_tensor`."""

    _fields_ = [
        ("handle", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("numel", ctypes.c_int64),
        ("dtype", ctypes.c_int32),
        ("dim", ctypes.c_int32),
        ("on_gpu", ctypes.c_int32),
        ("flags", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 16),
        ("strides", ctypes.c_int64 * 16),
    ]


class CValue(ctypes.Structure):
    """Mirror of `kw_value`."""

    _fields_ = [
        ("tag", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("payload", ctypes.c_int64),
        ("length", ctypes.c_int64),
    ]

CHost_CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(CValue), ctypes.c_int64, ctypes.POINTER(CValue))

CHost_RETAIN = ctypes.CFUNCTYPE(None, ctypes.c_int64)

CHost_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class CHost(ctypes.Structure):
    """Mirror of `kw_host`."""

    _fields_ = [
        ("version", ctypes.c_int32),
        ("call", CHost_CALL),
        ("retain", CHost_RETAIN),
        ("release", CHost_RELEASE),
    ]


RUNTIME: Prototypes = {
    "kw_init": (None, [ctypes.c_int]),
    "kw_alloc": (ctypes.c_void_p, [ctypes.c_size_t]),
    "kw_alloc_unfilled": (ctypes.c_void_p, [ctypes.c_size_t]),
    "kw_free": (None, [ctypes.c_void_p]),
    "kw_on_device": (ctypes.c_int, [ctypes.c_void_p]),
    "kw_allocated": (ctypes.c_size_t, []),
    "kw_launch_count": (ctypes.c_long, []),
    "kw_launch_names": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    "kw_kernels": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    "kw_tell_running": (None, [ctypes.c_char_p]),
    "kw_findings": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    "kw_clear_findings": (None, []),
    "kw_check": (None, [ctypes.c_int]),
    "kw_draw": (None, [ctypes.c_int, ctypes.c_int, ctypes.c_uint64]),
    "kw_note_writers": (None, [ctypes.c_int]),
    "kw_writers": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint64)]),
    "kw_lock": (None, [ctypes.c_uint64]),
    "kw_unlock": (None, [ctypes.c_uint64]),
    "kw_sample": (None, [ctypes.c_int]),
    "kw_sample_notes": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    "kw_register": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]),
    "kw_unregister": (None, [ctypes.c_void_p]),
    "kw_record": (None, [ctypes.c_int]),
    "kw_record_settle": (None, []),
    "kw_record_note": (None, [ctypes.c_char_p]),
    "kw_recorded": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    "kw_unwritten": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]),
    "kw_current_stream": (ctypes.c_void_p, []),
    "kw_set_current_stream": (None, [ctypes.c_void_p]),
    "kw_sides_unknown": (None, []),
    "kw_call_begins": (None, []),
    "kw_call_ends": (None, []),
    "kw_host_returned": (None, []),
    "kw_fail": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int]),
    "kw_set_function_attribute": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]),
    "kw_launch": (ctypes.c_int, [ctypes.POINTER(CLaunchRequest)]),
}
"""Functions of libkw_runtime."""


SERVES_TORCH: Prototypes = {
    "kw_serve_torch": (None, []),
}
"""Functions of the library TORCH_MEMORY."""


EXTENSION: Prototypes = {
    "kw_open": (ctypes.c_int32, [ctypes.POINTER(CHost), ctypes.POINTER(CValue)]),
    "kw_close": (None, []),
    "kw_invoke": (ctypes.c_int32, [ctypes.c_int64, ctypes.POINTER(CValue), ctypes.c_int64, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int64, ctypes.POINTER(CValue)]),
    "kw_forget": (None, []),
}
"""Functions of extensions with slim headers."""


BRIDGE: Prototypes = {
    "kw_torch_install": (None, []),
    "kw_torch_intercept": (ctypes.c_int, [ctypes.c_int]),
    "kw_torch_on_device": (ctypes.py_object, [ctypes.py_object]),
    "kw_torch_on_host": (ctypes.py_object, [ctypes.py_object]),
    "kw_torch_uninitialised": (ctypes.c_int, [ctypes.c_void_p]),
}
"""Functions of extensions with torch headers."""
