"""The C interface of built extensions as ctypes structures: the mirror of cpp/include/kw/host_abi.h."""

import ctypes
from enum import IntEnum

import torch

ABI_VERSION = 1
MAX_DIMS = 16


class Tag(IntEnum):
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
    DEVICE = 10
    MEMORY_FORMAT = 11
    LAYOUT = 12
    SLICE = 13
    ELLIPSIS = 14
    OPTIONS = 15
    OTHER = 16


class Status(IntEnum):
    OK = 0
    MISMATCH = 1
    RUNTIME_ERROR = 2
    VALUE_ERROR = 3
    TYPE_ERROR = 4
    INDEX_ERROR = 5
    NOT_IMPLEMENTED = 6


EXCEPTIONS: dict[int, type[Exception]] = {
    Status.RUNTIME_ERROR: RuntimeError,
    Status.VALUE_ERROR: ValueError,
    Status.TYPE_ERROR: TypeError,
    Status.INDEX_ERROR: IndexError,
    Status.NOT_IMPLEMENTED: NotImplementedError,
}

# c10::ScalarType
DTYPES: dict[int, torch.dtype] = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16,
    6: torch.float32, 7: torch.float64, 8: torch.complex32, 9: torch.complex64, 10: torch.complex128,
    11: torch.bool, 15: torch.bfloat16,
}  # fmt: skip
DTYPE_CODES = {dtype: code for code, dtype in DTYPES.items()}
UNDEFINED_DTYPE = 127
MEMORY_FORMATS: dict[int, torch.memory_format] = {
    0: torch.contiguous_format, 1: torch.preserve_format, 2: torch.channels_last, 3: torch.channels_last_3d,
}  # fmt: skip

REQUIRES_GRAD, CONTIGUOUS, CHANNELS_LAST = 1, 2, 4


class CTensor(ctypes.Structure):
    _fields_ = [
        ("handle", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("numel", ctypes.c_int64),
        ("dtype", ctypes.c_int32),
        ("dim", ctypes.c_int32),
        ("on_gpu", ctypes.c_int32),
        ("flags", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * MAX_DIMS),
        ("strides", ctypes.c_int64 * MAX_DIMS),
    ]


class CValue(ctypes.Structure):
    """`payload` holds an integer, the bits of a double or an address, as `tag` says."""

    _fields_ = [
        ("tag", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        ("payload", ctypes.c_int64),
        ("length", ctypes.c_int64),
    ]


CALL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(CValue), ctypes.c_int64, ctypes.POINTER(CValue)
)
COUNT_HANDLE = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class CHost(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int32),
        ("call", CALL),
        ("retain", COUNT_HANDLE),
        ("release", COUNT_HANDLE),
    ]
