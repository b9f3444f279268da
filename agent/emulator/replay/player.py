"""Runs the steps of a replay. Standalone: it runs in a process of its own and imports nothing of `agent`.

Started as `python -I player.py DESCRIPTOR` in a folder that holds this file, the libraries without their
initialisers and the judge's bytes. One JSON line on standard input is a command, one answer each on
DESCRIPTOR: `open` loads the libraries and maps device memory where the recorded process had it, `play` runs
the steps and writes the outputs' bytes. torch is loaded only where a step is an operator of torch.
"""

import ctypes
import itertools
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_PROT_READ_WRITE, _MAP = (
    3,
    0x02 | 0x20 | 0x4000 | 0x100000,
)  # private, anonymous, no reserve, fixed no replace
_ALIGNMENT = 64
_SHARED_LIMIT_ATTRIBUTE = 8  # cudaFuncAttributeMaxDynamicSharedMemorySize
_DEFAULT_SHARED = 48 << 10


class Request(ctypes.Structure):
    """kw_launch_request of kw/runtime.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("line", ctypes.c_int),
        ("by_pointer", ctypes.c_int),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_bytes", ctypes.c_size_t),
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("argument_bytes", ctypes.c_size_t),
    ]


class Library(ctypes.Structure):
    """Dl_info."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


class Player:
    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._bases: list[int] = []
        self._kept: list[Any] = []

    def do_open(self, command: dict[str, Any]) -> dict[str, Any]:
        self._runtime = ctypes.CDLL(command["runtime"], mode=ctypes.RTLD_GLOBAL)
        self._runtime.kw_init(command["threads"])
        self._libc.mmap.restype = ctypes.c_void_p
        start, end = command["memory"]
        size, none = ctypes.c_size_t(end - start), ctypes.c_size_t(0)
        mapped = self._libc.mmap(ctypes.c_void_p(start), size, _PROT_READ_WRITE, _MAP, -1, none)
        if end > start and mapped != start:
            return {"error": f"device memory cannot be mapped: {os.strerror(ctypes.get_errno())}"}
        for name in command["libraries"]:
            library = ctypes.CDLL(str(HERE / name), mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
            self._kept.append(library)
            found = Library()
            self._libc.dladdr(ctypes.cast(library.kw_open, ctypes.c_void_p), ctypes.byref(found))
            self._bases.append(found.base)
        return {}

    def do_play(self, command: dict[str, Any]) -> dict[str, Any]:
        """Runs the steps; `launches` false leaves the kernels out."""
        with (HERE / command["steps"]).open() as steps:
            for line in steps:
                kind, *words = json.loads(line)
                if kind != "launch" or command["launches"]:
                    getattr(self, "_" + kind)(*words)
        for index, description in enumerate(command["outputs"]):
            with (HERE / f"{command['stem']}.{index}").open("wb") as file:
                file.write(self._contents(*description))
        return {}

    def _place(self, place: Any) -> int:
        if isinstance(place, list):
            library, offset = place
            return int(self._bases[library] + offset)
        return int(place)

    def _allocate(self, address: int, count: int) -> None:
        ctypes.memset(address, 0xFF, count)

    def _bytes(self, place: Any, data: str) -> None:
        raw = bytes.fromhex(data)
        ctypes.memmove(self._place(place), raw, len(raw))

    def _file(self, address: int, name: str, count: int) -> None:
        with (HERE / name).open("rb") as file:
            file.readinto((ctypes.c_char * count).from_address(address))

    def _move(self, to: Any, source: Any, count: int) -> None:
        ctypes.memmove(self._place(to), self._place(source), count)

    def _fill(self, place: Any, pattern: str, count: int) -> None:
        raw, start = bytes.fromhex(pattern), self._place(place)
        if len(set(raw)) == 1:
            ctypes.memset(start, raw[0], count)
        else:
            ctypes.memmove(start, raw * (count // len(raw)), count)

    def _launch(self, event: dict[str, Any]) -> None:
        raw = bytearray.fromhex(event["arguments"])
        for at, place in event["words"]:
            raw[at : at + 8] = self._place(place).to_bytes(8, "little")
        room = ctypes.create_string_buffer(len(raw) + _ALIGNMENT)
        start = -(-ctypes.addressof(room) // _ALIGNMENT) * _ALIGNMENT
        ctypes.memmove(start, bytes(raw), len(raw))
        name = event["name"].encode()
        if event["shared"] > _DEFAULT_SHARED:
            self._runtime.kw_set_function_attribute(name, _SHARED_LIMIT_ATTRIBUTE, event["shared"])
        grid, block = ((ctypes.c_uint * 3)(*event[key]) for key in ("grid", "block"))
        entry = self._place(event["entry"])
        request = Request(name, event["line"], 0, grid, block, event["shared"], entry, start, len(raw))
        self._runtime.kw_launch(ctypes.byref(request))
        status = self._runtime.cudaGetLastError()
        if status:
            raise RuntimeError(f"kernel {event['name']} ended with CUDA error {status}")

    def _operator(
        self, name: str, overload: str, arguments: list[Any], keywords: dict[str, Any], results: list[Any]
    ) -> None:
        import torch

        torch.set_num_threads(1)
        function = getattr(getattr(torch.ops.aten, name), overload)
        with torch.no_grad():
            given = {key: self._value(value) for key, value in keywords.items()}
            made = function(*map(self._value, arguments), **given)
            for tensor, description in zip(
                made if isinstance(made, tuple) else [made], results, strict=False
            ):
                if description is not None and "tensor" in description:
                    self._tensor(*description["tensor"]).copy_(tensor)

    def _value(self, value: Any) -> Any:
        import torch

        if isinstance(value, list):
            return [self._value(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return self._tensor(*value["tensor"])
        if "literal" in value:
            raw = bytearray.fromhex(value["literal"])
            kind = getattr(torch, value["dtype"])
            if not raw:
                return torch.empty(value["shape"], dtype=kind)
            return torch.frombuffer(raw, dtype=torch.uint8).view(kind).reshape(value["shape"])
        if "device" in value:
            return torch.device("cpu")
        return getattr(torch, next(iter(value.values())))

    def _tensor(self, address: int, dtype: str, shape: list[int], strides: list[int]) -> Any:
        import torch

        kind = getattr(torch, dtype)
        if not math.prod(shape):
            return torch.empty(shape, dtype=kind)
        buffer = (ctypes.c_char * _extent(shape, strides, kind.itemsize)).from_address(address)
        return torch.frombuffer(buffer, dtype=torch.uint8).view(kind).as_strided(shape, strides)

    def _contents(self, address: int, size: int, shape: list[int], strides: list[int]) -> bytes:
        """The bytes of a tensor of elements of `size` bytes, row by row."""
        if not math.prod(shape):
            return b""
        raw = ctypes.string_at(address, _extent(shape, strides, size))
        rows = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        if all(n == 1 or step == row for n, step, row in zip(shape, strides, rows, strict=True)):
            return raw
        ranges = [
            range(0, n * step, step) if step else [0] * n for n, step in zip(shape, strides, strict=True)
        ]
        starts = (sum(at) * size for at in itertools.product(*ranges))
        return b"".join(raw[start : start + size] for start in starts)


def _extent(shape: list[int], strides: list[int], size: int) -> int:
    return size * (1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)))


def main(argv: list[str]) -> None:
    player = Player()
    commands = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    while line := commands.readline():
        command = json.loads(line)
        try:
            answer = getattr(player, "do_" + command["do"])(command)
        except Exception as error:  # noqa: BLE001 - whatever went wrong is reported to the judge
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        data = json.dumps(answer).encode() + b"\n"
        while data:
            data = data[os.write(int(argv[-1]), data) :]


if __name__ == "__main__":
    main(sys.argv)
