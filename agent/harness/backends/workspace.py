"""Folder in which a candidate is judged: its file, the worker's files and the exchanged tensors.

The folder lies in a directory that only the judge may enter. The directory also holds `libraries`, which the
candidate may read, and `oracle`, which the candidate must not see.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from agent.errors import EnvironmentFault
from agent.records import Candidate, TensorSpec, Trace
from agent.sandbox import messages

_WORKER = Path(__file__).resolve().parents[1] / "worker"
_TORCH_SHIM = _WORKER.parents[1] / "torch_shim"
MARGIN_BYTES = 64 << 20
SCRATCH_BYTES = 2 << 30
KEPT_BYTES = 256 << 20
"""Maximum bytes of an instance's outputs that the worker keeps; of larger ones it keeps only the last."""


class Furnished(Protocol):
    """Properties of a backend that decide the contents of its workers' folders."""

    device: str
    with_torch_shim: bool
    """True if the worker builds or runs through the package `torch_shim`."""


@contextlib.contextmanager
def workspace(candidate: Candidate, trace: Trace, backend: Furnished) -> Iterator[Path]:
    """Make a folder with the worker's files and `candidate.py`, and remove it at the end.

    The folder lies in memory if its tensors fit there. Those are the parameters on a GPU, and two copies of
    one draw's tensors on the emulator. Raises EnvironmentFault if neither memory nor disk has room.
    """
    needed = _bytes_needed(trace) if backend.device == "cpu" else state_bytes(trace) + MARGIN_BYTES
    own = Path(tempfile.mkdtemp(prefix="kernelwright-", dir=_roomy(needed)))
    folder = own / "candidate"
    try:
        for place in (folder, library_folder(folder), oracle_folder(folder), replay_folder(folder)):
            place.mkdir()
        furnish(folder, candidate.source, backend)
        yield folder
    finally:
        shutil.rmtree(own, ignore_errors=True)


def furnish(folder: Path, source: str, backend: Furnished) -> None:
    """Copy the worker's files into `folder` and write `source` as the candidate that the worker loads."""
    for file in _WORKER.glob("[!_]*.py"):
        shutil.copy(file, folder)
    shutil.copy(Path(messages.__file__), folder)
    if backend.with_torch_shim:
        shutil.copytree(_TORCH_SHIM, folder / "torch_shim", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "candidate.py").write_text(source, encoding="utf-8", errors="surrogatepass")


def noop_folder(folder: Path) -> Path:
    """Return the folder of the noop worker, whose calls calibrate the clock."""
    return folder.parent / "nothing"


def library_folder(folder: Path) -> Path:
    """Return the folder of a candidate's built libraries, which the candidate can read but not write."""
    return folder.parent / "libraries"


def oracle_folder(folder: Path) -> Path:
    """Return the folder of the reference, hidden from the candidate."""
    return folder.parent / "oracle"


def replay_folder(folder: Path) -> Path:
    """Return the folder in which the candidate's kernels are replayed, hidden from the candidate."""
    return folder.parent / "replay"


def output_bytes(trace: Trace) -> int:
    """Return the bytes of all outputs of one call."""
    return sum(spec.bytes for spec in trace.outputs)


def state_bytes(trace: Trace) -> int:
    """Return the bytes of all parameters and buffers."""
    return sum(spec.bytes for spec in trace.state)


def exchanged_bytes(trace: Trace) -> int:
    """Return the bytes of all inputs, parameters, buffers and outputs of one call."""
    inputs = sum(spec.bytes for spec in trace.inputs if isinstance(spec, TensorSpec))
    return inputs + state_bytes(trace) + output_bytes(trace)


def discard(folder: Path, stem: str) -> None:
    """Remove the files of the tensors whose names begin with `stem`."""
    for path in folder.glob(f"{stem}.*"):
        path.unlink(missing_ok=True)


def most_bytes(trace: Trace) -> int:
    """Return the disk limit of a candidate's folder in bytes, for exchanged tensors and builds."""
    return 2 * _bytes_needed(trace) + SCRATCH_BYTES


def _bytes_needed(trace: Trace) -> int:
    return 2 * exchanged_bytes(trace) + MARGIN_BYTES


def _roomy(needed: int) -> Path:
    places = [Path("/dev/shm"), Path(tempfile.gettempdir())]
    free = {place: shutil.disk_usage(place).free for place in places if place.is_dir()}
    for place, room in free.items():
        if room > needed:
            return place
    listed = ", ".join(f"{place} ({room >> 20} MB)" for place, room in free.items())
    raise EnvironmentFault(
        f"not enough space for the {needed >> 20} MB of tensors of one draw (free: {listed}); "
        "free some space or set TMPDIR to a larger disk"
    )
