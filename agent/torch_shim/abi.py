"""Mapping of codes in the C interface of built extensions to torch's types and Python's exceptions.

c_abi.py declares the interface; it is generated from cpp/include/kw/host_abi.h and host_scalars.h.
"""

import torch

from .c_abi import MemoryFormat, ScalarType, Status

EXCEPTIONS: dict[int, type[Exception]] = {
    Status.RUNTIME_ERROR: RuntimeError,
    Status.VALUE_ERROR: ValueError,
    Status.TYPE_ERROR: TypeError,
    Status.INDEX_ERROR: IndexError,
    Status.NOT_IMPLEMENTED: NotImplementedError,
}
DTYPES: dict[int, torch.dtype] = {
    ScalarType.Byte: torch.uint8,
    ScalarType.Char: torch.int8,
    ScalarType.Short: torch.int16,
    ScalarType.Int: torch.int32,
    ScalarType.Long: torch.int64,
    ScalarType.Half: torch.float16,
    ScalarType.Float: torch.float32,
    ScalarType.Double: torch.float64,
    ScalarType.ComplexHalf: torch.complex32,
    ScalarType.ComplexFloat: torch.complex64,
    ScalarType.ComplexDouble: torch.complex128,
    ScalarType.Bool: torch.bool,
    ScalarType.BFloat16: torch.bfloat16,
}
DTYPE_CODES = {dtype: code for code, dtype in DTYPES.items()}
MEMORY_FORMATS: dict[int, torch.memory_format] = {
    MemoryFormat.Contiguous: torch.contiguous_format,
    MemoryFormat.Preserve: torch.preserve_format,
    MemoryFormat.ChannelsLast: torch.channels_last,
    MemoryFormat.ChannelsLast3d: torch.channels_last_3d,
}
