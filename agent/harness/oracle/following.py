"""Reader of the files with the values that kernels wrote in a replay. The judge gives the files' sizes."""

from collections.abc import Sequence
from pathlib import Path

import torch

from agent.diagnosis.where.following import Followed, Kernel, Writers, Writing, output
from agent.emulator.replay.events import extent, itemsize
from agent.harness.messages.where_commands import Where
from agent.harness.worker import wire

WORD = 4
Tensor = torch.Tensor


def read(told: Where, like: Sequence[Tensor]) -> Followed:
    """Return the replay's launches, writes and outputs.

    `like` holds the judged outputs. Raises WireError for a file that does not match its description, and for
    outputs whose dtypes or shapes differ from those of `like`.
    """
    if [(o[0], o[1]) for o in told.outputs] != [(str(t.dtype)[6:], list(t.shape)) for t in like]:
        raise wire.WireError("the outputs of the replay are not those that were judged")
    launches = [Kernel(one.kernel, one.line, one.grid, one.block) for one in told.launches]
    writings = []
    for number, (first, last, piece, size) in enumerate(told.written):
        values, cells = _saved(told.stem, ("values", "writers"), number, size)
        writings.append(Writing(first, last, piece, values, Writers.of(cells)))
    outputs = []
    for number, (dtype, shape, strides) in enumerate(told.outputs):
        size = extent(shape, strides, itemsize(dtype))
        values, cells = _saved(told.stem, ("output", "output-writers"), number, size)
        outputs.append(output(values, cells, getattr(torch, dtype), shape, strides))
    return Followed(launches, writings, outputs, told.operators)


def _saved(stem: str, names: tuple[str, str], number: int, size: int) -> tuple[Tensor, Tensor]:
    """Return the bytes of a piece of memory, and the writers of each of its words."""
    values, writers = (Path(f"{stem}-{name}.{number}") for name in names)
    return (
        wire.read_tensor(values, (size,), "uint8"),
        wire.read_tensor(writers, ((size + WORD - 1) // WORD,), "int64"),
    )
