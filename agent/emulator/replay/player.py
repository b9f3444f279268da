"""Player of a replay's steps, which runs in a separate process and imports nothing from `agent`.

The judge starts it as `python -I player.py DESCRIPTOR`. The folder holds this file, `c_abi.py`,
`following.py`, `messages.py`, `player_commands.py`, the libraries without their initialisers and the judge's
bytes. Each JSON line on standard input is a command of `player_commands`; its answer goes to DESCRIPTOR.
`open` loads the libraries and maps device memory at the addresses of the recorded process. `play` runs the
steps and saves the outputs. `check` checks the memory accesses of kernels, and `follow` reports their writes.
The player imports torch only for a step that is a torch operator.
"""

import ctypes
import itertools
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import c_abi  # type: ignore[import-not-found]  # noqa: E402 - copies beside this file
import following  # type: ignore[import-not-found]  # noqa: E402
import messages  # type: ignore[import-not-found]  # noqa: E402
import player_commands  # type: ignore[import-not-found]  # noqa: E402

_PROT_READ_WRITE, _MAP = (
    3,
    0x02 | 0x20 | 0x4000 | 0x100000,
)  # MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MAP_FIXED_NOREPLACE
_ALIGNMENT = 64


_RTLD_DI_LINKMAP = 2


class NotRepeatable(Exception):
    """The recorded code cannot be replayed; any exception of another type is a bug in this file."""


class Player:
    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._memory = (0, 0)
        self._bases: list[int] = []
        self._kept: list[Any] = []

    def answer(self, line: bytes | str) -> dict[str, Any]:
        """Run one command and return its answer. Raise Malformed for an invalid line."""
        command = messages.decoded(line, player_commands.Command)
        return dict(getattr(self, "do_" + messages.tag(type(command)))(command))

    def do_open(self, command: player_commands.Open) -> dict[str, Any]:
        self._runtime = ctypes.CDLL(command.runtime, mode=ctypes.RTLD_GLOBAL)
        c_abi.declare(self._runtime, c_abi.RUNTIME)
        self._runtime.kw_init(command.threads)
        self._libc.mmap.restype = ctypes.c_void_p
        start, end = self._memory = command.memory
        size, none = ctypes.c_size_t(end - start), ctypes.c_size_t(0)
        mapped = self._libc.mmap(ctypes.c_void_p(start), size, _PROT_READ_WRITE, _MAP, -1, none)
        if end > start and mapped != start:
            raise NotRepeatable(f"device memory cannot be mapped: {os.strerror(ctypes.get_errno())}")
        for name in command.libraries:
            try:
                library = ctypes.CDLL(str(HERE / name), mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
            except OSError as error:
                raise NotRepeatable(f"the extension cannot be loaded: {error}") from None
            self._kept.append(library)
            # link_map (link.h) begins with the load address; the library may export no symbol to look up.
            place = ctypes.POINTER(ctypes.c_size_t)()
            self._libc.dlinfo(ctypes.c_void_p(library._handle), _RTLD_DI_LINKMAP, ctypes.byref(place))
            self._bases.append(place[0])
        return {}

    def do_play(self, command: player_commands.Play) -> dict[str, Any]:
        """Run the steps and save the outputs; `launches` false skips the kernels."""
        for kind, words in self._steps(command.steps):
            if kind != "launch" or command.launches:
                self._run(kind, words)
        for index, description in enumerate(command.outputs):
            with (HERE / f"{command.stem}.{index}").open("wb") as file:
                file.write(self._contents(*description))
        return {}

    def do_check(self, command: player_commands.Check) -> dict[str, Any]:
        """Run the steps and return the runtime's findings in the checked launches.

        Raise NotRepeatable if the steps fail and nothing was found.
        """
        for address, size in command.pieces:
            self._runtime.kw_register(address, size, b"")
        self._runtime.kw_draw(c_abi.MEMORY_ONES, command.order, command.seed)
        stopped = None
        for number, (kind, words) in enumerate(self._steps(command.steps)):
            if number == command.first:
                self._runtime.kw_clear_findings()
                self._runtime.kw_check(1)
            try:
                self._run(kind, words)
            except NotRepeatable as error:
                if number < command.first:
                    raise  # an earlier call failed; it ran on zeros, so the failure is no finding
                stopped = error
                break
        needed = self._runtime.kw_findings(None, 0)
        buffer = ctypes.create_string_buffer(needed + 1)
        self._runtime.kw_findings(buffer, needed + 1)
        found = json.loads(buffer.value.decode("utf-8", "replace") or "[]")
        if stopped is not None and not found:
            raise stopped
        return {"findings": found}

    def do_follow(self, command: player_commands.Follow) -> dict[str, Any]:
        """Run the steps and return which memory the launches wrote; save the values and their writers."""
        noted = following.Following(self._runtime, HERE, command)
        for number, (kind, words) in enumerate(self._steps(command.steps)):
            if number == command.first:
                noted.begin()
            self._run(kind, words)
            if number >= command.first and kind == "launch":
                noted.after(words[0]["entry"])
        for address, size in command.outputs:
            self._need(address, size)
        return dict(noted.end())

    def _steps(self, name: str) -> Iterator[tuple[str, list[Any]]]:
        with (HERE / name).open() as steps:
            for line in steps:
                kind, *words = json.loads(line)
                yield kind, words

    def _run(self, kind: str, words: list[Any]) -> None:
        run: dict[str, Callable[..., None]] = {
            "allocate": self._allocate, "bytes": self._bytes, "file": self._file, "move": self._move,
            "fill": self._fill, "launch": self._launch, "operator": self._operator,
        }  # fmt: skip
        run[kind](*words)

    def _need(self, place: Any, count: int) -> None:
        """Raise NotRepeatable for a range outside device memory; places in libraries are not checked."""
        start, end = self._memory
        if not isinstance(place, list) and not start <= place <= place + count <= end:
            raise NotRepeatable("the record names memory that was never allocated")

    def _place(self, place: Any) -> int:
        if isinstance(place, list):
            library, offset = place
            return int(self._bases[library] + offset)
        return int(place)

    def _allocate(self, address: int, count: int) -> None:
        ctypes.memset(address, c_abi.FRESH_BYTE, count)

    def _bytes(self, place: Any, data: str) -> None:
        raw = bytes.fromhex(data)
        self._need(place, len(raw))
        ctypes.memmove(self._place(place), raw, len(raw))

    def _file(self, address: int, name: str, count: int) -> None:
        self._need(address, count)
        path = HERE / name
        if not path.is_file() or path.stat().st_size != count:
            raise NotRepeatable(f"the judge handed in no {count} bytes as {name}")
        with path.open("rb") as file:
            file.readinto((ctypes.c_char * count).from_address(address))

    def _move(self, to: Any, source: Any, count: int) -> None:
        self._need(to, count)
        self._need(source, count)
        ctypes.memmove(self._place(to), self._place(source), count)

    def _fill(self, place: Any, pattern: str, count: int) -> None:
        self._need(place, count)
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
        if event["shared"]:
            # The recorded launch already checked that the host had raised the limit, so allow the size here.
            self._runtime.kw_set_function_attribute(name, c_abi.SHARED_LIMIT_ATTRIBUTE, event["shared"])
        grid, block = ((ctypes.c_uint * 3)(*event[key]) for key in ("grid", "block"))
        entry = c_abi.CLaunchRequest_ENTRY(self._place(event["entry"]))
        request = c_abi.CLaunchRequest(
            size=ctypes.sizeof(c_abi.CLaunchRequest), name=name, line=event["line"], grid=grid, block=block,
            dynamic_bytes=event["shared"], entry=entry, arguments=start, argument_bytes=len(raw),
            cooperative=event["cooperative"], cluster=(ctypes.c_uint * 3)(*event["cluster"]),
        )  # fmt: skip
        if self._runtime.kw_launch(ctypes.byref(request)):
            raise RuntimeError("this file and the runtime disagree on kw_launch_request")
        status = self._runtime.cudaGetLastError()
        if status:
            raise NotRepeatable(f"kernel {event['name']} ended with CUDA error {status}")

    def _operator(
        self, name: str, overload: str, arguments: list[Any], keywords: dict[str, Any], results: list[Any]
    ) -> None:
        import torch

        torch.set_num_threads(1)
        given = [self._value(value) for value in arguments]
        named = {key: self._value(value) for key, value in keywords.items()}
        places = [
            self._tensor(*description["tensor"]) if description and "tensor" in description else None
            for description in results
        ]
        try:
            with torch.no_grad():
                made = getattr(getattr(torch.ops.aten, name), overload)(*given, **named)
                tensors = made if isinstance(made, tuple) else [made]
                for tensor, place in zip(tensors, places, strict=False):
                    if place is not None:
                        place.copy_(tensor)
        except Exception as error:  # noqa: BLE001 - what it was given comes from the record
            raise NotRepeatable(f"torch's {name}: {type(error).__name__}: {error}"[:1000]) from None

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
        named = next(iter(value.values()))
        if not hasattr(torch, named):
            raise NotRepeatable(f"torch has no {named}")
        return getattr(torch, named)

    def _tensor(self, address: int, dtype: str, shape: list[int], strides: list[int]) -> Any:
        import torch

        kind = getattr(torch, dtype)
        if not math.prod(shape):
            return torch.empty(shape, dtype=kind)
        self._need(address, _extent(shape, strides, kind.itemsize))
        buffer = (ctypes.c_char * _extent(shape, strides, kind.itemsize)).from_address(address)
        return torch.frombuffer(buffer, dtype=torch.uint8).view(kind).as_strided(shape, strides)

    def _contents(self, address: int, size: int, shape: list[int], strides: list[int]) -> bytes:
        """Return the bytes of a tensor in row-major order; elements have `size` bytes."""
        if not math.prod(shape):
            return b""
        self._need(address, _extent(shape, strides, size))
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
        try:
            answer = player.answer(line)
        except (NotRepeatable, MemoryError) as error:
            answer = {"not_repeatable": (str(error) or "it takes too much memory")[:2000]}
        except Exception as error:  # noqa: BLE001 - whatever else went wrong is ours, and the judge says so
            answer = {
                "error": f"{type(error).__name__}: {error}",
                "traceback": traceback.format_exc()[-8_000:],
            }
        data = json.dumps(answer).encode() + b"\n"
        while data:
            data = data[os.write(int(argv[-1]), data) :]


if __name__ == "__main__":
    main(sys.argv)
