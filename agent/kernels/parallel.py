"""Parallel build of many libraries, longest first.

With enough processors the whole build takes as long as the slowest library.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from agent.kernels import building, sources


class Wanted(NamedTuple):
    """One library of a kernel."""

    name: str
    part: str


def wanted(names: Sequence[str], dtypes: Sequence[str] | None = None) -> tuple[Wanted, ...]:
    """Return every library of these kernels; for kernels with one per dtype, only those of `dtypes`."""
    found = (Wanted(name, part) for name in names for part in sources.parts(name))
    return tuple(one for one in found if not dtypes or one.part in (*dtypes, sources.ALL))


_LONG = (
    "group_norm", "matmul_fp32x3", "cumsum", "logsumexp", "cross_entropy", "batch_norm", "conv_fp32x3",
    "reduction", "add_layer_norm", "matmul_half", "embedding_norm", "layer_norm", "add_rms_norm",
    "masked_softmax", "linear_group_norm_min_bias", "softmax", "rms_norm", "rotary",
)  # fmt: skip
"""Kernels with the longest builds, longest first, as measured; all others follow them.

Sorting by the size of the sources would take longer (docs/log.md)."""


def _rank(one: Wanted) -> int:
    return _LONG.index(one.name) if one.name in _LONG else len(_LONG)


def libraries(wanted: Sequence[Wanted], arch: str, jobs: int) -> Iterator[Path]:
    """Yield the path of each library as it becomes ready, with `jobs` compilers at a time.

    Raises BuildFault for the first failure. Compilations in progress are then finished, and their results
    kept.
    """
    first = sorted(wanted, key=_rank)
    pool = ThreadPoolExecutor(jobs)
    try:
        begun = [pool.submit(building.library, one.name, arch, one.part) for one in first]
        for done in as_completed(begun):
            yield done.result()
    finally:
        pool.shutdown(cancel_futures=True)
