"""Memory checks made in the candidate's process. Standalone: the worker runs a copy of this file.

Results are claims of a process that the candidate shares: they may refuse a candidate but never verify one.
"""

import threading
from functools import cache
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

Span = tuple[int, int]
BAND_BYTES = 4096
"""Bytes of the guard band on each side of an input, a multiple of every alignment device code may need."""
SMALL_BYTES = 1 << 20
"""Maximum size of blocks that torch's allocator keeps in a separate pool of small blocks."""
ROOM = 3
"""Divisor of GPU memory that gives the part to keep free for other processes between two calls."""
POISONED_BLOCKS = tuple(1 << power for power in range(9, 25))
SMALL_BLOCKS = 6
"""Number of poisoned blocks of each small size, enough for a call that allocates several."""


def held(model: Any) -> dict[str, torch.Tensor]:
    """Return parameters and buffers by name as the modules hold them, even if state_dict hides some."""
    found: dict[str, torch.Tensor] = dict(model.state_dict())
    for prefix, module in torch.nn.Module.named_modules(model):
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                found[f"{prefix}.{name}" if prefix else name] = tensor
    return found


class Inputs:
    """Buffers of the input tensors, with guard bands of ones in every bit, which is NaN for floats."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._rooms: list[tuple[torch.Tensor, torch.Tensor]] = []

    def place(self, value: Any, in_place: bool) -> Any:
        """Return the values in guarded buffers; with `in_place`, in the previous call's if they fit.

        Buffers are rewritten without a new version number, as a GPU kernel would rewrite them.
        """
        known, self._rooms = (list(self._rooms) if in_place else []), []
        return self._placed(value, known)

    def written_bands(self) -> list[int]:
        """Return the indices of the input tensors whose guard bands were written."""
        return [
            number
            for number, (room, tensor) in enumerate(self._rooms)
            if not bool((_bands(room, tensor.numel() * tensor.element_size()) == 255).all())
        ]

    def _placed(self, value: Any, known: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
        def place(value: torch.Tensor) -> torch.Tensor:
            room, tensor = known.pop(0) if known else (None, None)
            if tensor is None or room is None or (tensor.shape, tensor.dtype) != (value.shape, value.dtype):
                room, tensor = self._banded(value)
            tensor.data.copy_(value)
            self._rooms.append((room, tensor))
            return tensor

        return tree_map_only(torch.Tensor, place, value)

    def _banded(self, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = value.numel() * value.element_size()
        room = torch.empty(size + 2 * BAND_BYTES, dtype=torch.uint8, device=self._device)
        room[:BAND_BYTES].fill_(255)
        room[BAND_BYTES + size :].fill_(255)
        tensor = torch.empty(0, dtype=value.dtype, device=self._device)
        tensor.set_(room.untyped_storage(), BAND_BYTES // value.element_size(), value.shape)  # type: ignore[call-overload]
        return room, tensor


def _bands(room: torch.Tensor, size: int) -> torch.Tensor:
    return torch.cat([room[:BAND_BYTES], room[BAND_BYTES + size :]])


def poison(outputs: list[int], word: int) -> None:
    """Fill the free memory of torch's caching allocator with `word`, in blocks of output and common sizes.

    Free memory may hold the right result of a kernel that ran in an earlier call. No single word is
    wrong for every operation, so each draw uses another word.
    """
    common = (size for size in POISONED_BLOCKS for _ in range(SMALL_BLOCKS if size <= SMALL_BYTES else 1))
    signed = word - (1 << 32) if word >> 31 else word

    def full(size: int) -> torch.Tensor:
        return torch.full(((size + 3) // 4,), signed, dtype=torch.int32, device="cuda")

    # All blocks are held until the end, so that each allocation takes a new block.
    held = [full(size) for size in (*outputs, *common)]
    held += [full(size) for size in _free_blocks()]
    torch.cuda.synchronize()
    del held


@cache
def begin(wanted: bool) -> None:
    """Initialise this process's GPU context in a thread, if `wanted`, while the process waits."""
    if wanted:
        threading.Thread(target=torch.zeros, args=(1,), kwargs={"device": "cuda"}, daemon=True).start()


def leave_room() -> None:
    """Release the caching allocator's free memory if the GPU has little left for other processes."""
    free, whole = torch.cuda.mem_get_info()
    if free < whole // ROOM:
        torch.cuda.empty_cache()


def _free_blocks() -> list[int]:
    """Return sizes in bytes that use up the caching allocator's free memory, the largest first."""
    found: list[int] = []
    for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]
        # A small segment serves only requests up to SMALL_BYTES.
        most = SMALL_BYTES if segment["segment_type"] == "small" else segment["total_size"]
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                whole, rest = divmod(block["size"], most)
                found += [most] * whole + [rest] * bool(rest)
    return sorted(found, reverse=True)


def leaves(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a nested value, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [leaf for item in items for leaf in leaves(item)]


def overlaps(outputs: Any, groups: dict[str, Any]) -> list[list[str]]:
    """Return, for each output tensor, the names of the groups with which it shares memory."""
    return meeting(outputs, {name: spans(value) for name, value in groups.items()})


def meeting(outputs: Any, groups: dict[str, list[Span]]) -> list[list[str]]:
    """Return the result of `overlaps` for groups given as address spans."""
    return [
        [name for name, others in groups.items() if any(_meet(own, other) for other in others)]
        for own in spans(outputs)
    ]


def spans(value: Any) -> list[Span]:
    """Return the address spans of a value's tensors."""
    return [_span(tensor) for tensor in leaves(value)]


def _span(tensor: torch.Tensor) -> Span:
    """Return the first and the end address of a tensor's elements, or (0, 0) for one without memory."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return 0, 0
    steps = int(sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)))
    begin = int(tensor.untyped_storage().data_ptr() + tensor.storage_offset() * tensor.element_size())
    return begin, begin + (steps + 1) * tensor.element_size()


def _meet(one: Span, other: Span) -> bool:
    return max(one[0], other[0]) < min(one[1], other[1])
