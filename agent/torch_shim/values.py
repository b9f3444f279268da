"""Conversion of Python values to and from the C interface, and the table of tensors lent to C++."""

import ctypes
import operator
import struct
from typing import Any, NamedTuple

import torch

from . import device, host_tensors
from .abi import DTYPE_CODES, DTYPES, MEMORY_FORMATS
from .c_abi import MAX_DIMS, CTensor, CValue, Flag, ScalarType, Tag

_INT64 = range(-(2**63), 2**63)


class Absent:
    """Type of ABSENT, which stands for an argument that C++ did not give."""


ABSENT = Absent()


class Options(NamedTuple):
    """Counterpart of at::TensorOptions; an unset field is ABSENT."""

    dtype: Any
    device: Any
    requires_grad: Any
    memory_format: Any


class Tensors:
    """Table of tensors lent to C++ by reference-counted handles. A description keeps its address while its
    handle is in use."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[torch.Tensor, CTensor]] = {}
        self._counts: dict[int, int] = {}
        self._next = 1

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, handle: int) -> torch.Tensor:
        return self._held[handle][0]

    def lend(self, tensor: torch.Tensor) -> CTensor:
        """Return a description of the tensor with a new handle, whose count is one."""
        device.note(tensor)
        handle = self._next
        self._next += 1
        description = _describe(tensor, handle)
        self._held[handle] = tensor, description
        self._counts[handle] = 1
        return description

    def retain(self, handle: int) -> None:
        self._counts[handle] += 1

    def release(self, handle: int) -> None:
        self._counts[handle] -= 1
        if self._counts[handle] == 0:
            del self._counts[handle], self._held[handle]


def _describe(tensor: torch.Tensor, handle: int) -> CTensor:
    if tensor.dim() > MAX_DIMS:
        raise RuntimeError(f"a tensor of {tensor.dim()} dimensions; extensions here take up to {MAX_DIMS}")
    if not device.is_emulated() and tensor.is_cuda and tensor.get_device() != 0:
        raise RuntimeError("extensions here know one GPU, and the tensor is on another")
    strided = tensor.layout is torch.strided
    flags = int(Flag.REQUIRES_GRAD) if tensor.requires_grad else 0
    if strided and tensor.is_contiguous():
        flags |= Flag.CONTIGUOUS
    if tensor.dim() == 4 and strided and tensor.is_contiguous(memory_format=torch.channels_last):
        flags |= Flag.CHANNELS_LAST
    made = CTensor(
        handle=handle,
        data=tensor.data_ptr() if strided else 0,
        numel=tensor.numel(),
        dtype=DTYPE_CODES.get(tensor.dtype, ScalarType.Undefined),
        dim=tensor.dim(),
        on_gpu=int(not host_tensors.on_host(tensor) if device.is_emulated() else tensor.is_cuda),
        flags=flags,
    )
    made.sizes[: tensor.dim()] = list(tensor.shape)
    made.strides[: tensor.dim()] = list(tensor.stride()) if strided else [0] * tensor.dim()
    return made


class Encoder:
    """Encoder of values for C++; memory that the values point to lives as long as the encoder.

    `lent` holds the handles of lent tensors. Whichever of C++ and Python finally owns a handle releases it.
    """

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._kept: list[object] = []
        self.lent: list[int] = []

    def value(self, item: object) -> CValue:
        if item is None:
            return CValue(tag=Tag.NONE)
        if isinstance(item, bool):
            return CValue(tag=Tag.BOOL, payload=int(item))
        if isinstance(item, torch.Tensor):
            description = self._tensors.lend(item)
            self.lent.append(description.handle)
            return CValue(tag=Tag.TENSOR, payload=ctypes.addressof(description))
        if isinstance(item, float):
            return CValue(tag=Tag.FLOAT, payload=struct.unpack("<q", struct.pack("<d", item))[0])
        if isinstance(item, str):
            return self._text(Tag.STRING, item)
        if isinstance(item, (list, tuple)):
            tag = Tag.LIST if isinstance(item, list) else Tag.TUPLE
            return CValue(tag=tag, payload=ctypes.addressof(self.array(list(item))), length=len(item))
        if isinstance(item, torch.dtype):
            return CValue(tag=Tag.DTYPE, payload=DTYPE_CODES.get(item, ScalarType.Undefined))
        if isinstance(item, torch.device):
            return self._text(Tag.DEVICE_NAME, str(item))
        return self._number(item)

    def array(self, items: list[object]) -> Any:
        """Return a ctypes array of the encoded items, with at least one element."""
        values = (CValue * max(1, len(items)))(*(self.value(item) for item in items))
        self._kept.append(values)
        return values

    def _text(self, tag: Tag, text: str) -> CValue:
        raw = text.encode("utf-8", "surrogatepass")
        buffer = ctypes.create_string_buffer(raw)
        self._kept.append(buffer)
        return CValue(tag=tag, payload=ctypes.addressof(buffer), length=len(raw))

    def _number(self, item: object) -> CValue:
        # Handles numpy's numbers and Python's integers, including big ones.
        if hasattr(item, "__index__"):
            number = operator.index(item)
            if number in _INT64:
                return CValue(tag=Tag.INT, payload=number)
        elif hasattr(item, "__float__"):
            return self.value(float(item))
        return CValue(tag=Tag.OTHER)


def decode(value: CValue, tensors: Tensors) -> Any:
    """Return the Python value of a C++ value; a tensor is looked up by its handle, which C++ keeps."""
    tag = value.tag
    if tag == Tag.TENSOR:
        return tensors[CTensor.from_address(value.payload).handle]
    if tag == Tag.INT:
        return value.payload
    if tag == Tag.BOOL:
        return bool(value.payload)
    if tag == Tag.FLOAT:
        return struct.unpack("<d", struct.pack("<q", value.payload))[0]
    if tag in (Tag.STRING, Tag.DEVICE_NAME):
        text = ctypes.string_at(value.payload, value.length).decode("utf-8", "replace")
        return torch.device(text) if tag == Tag.DEVICE_NAME else text
    if tag in (Tag.LIST, Tag.TUPLE, Tag.SLICE, Tag.OPTIONS):
        items = [decode(item, tensors) for item in _items(value)]
        return _SEQUENCES[tag](items)
    if tag == Tag.DTYPE:
        return DTYPES[value.payload]
    if tag == Tag.MEMORY_FORMAT:
        return MEMORY_FORMATS[value.payload]
    return {Tag.NONE: None, Tag.ELLIPSIS: ..., Tag.LAYOUT: torch.strided}.get(tag, ABSENT)


_SEQUENCES: dict[int, Any] = {
    Tag.LIST: list,
    Tag.TUPLE: tuple,
    Tag.SLICE: lambda items: slice(*items),
    Tag.OPTIONS: lambda items: Options(*items),
}


def _items(value: CValue) -> list[CValue]:
    if not value.length:
        return []
    return list((CValue * value.length).from_address(value.payload))
