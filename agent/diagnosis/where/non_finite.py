"""Which kernel wrote the first number that is not finite."""

import torch

from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.where.following import Followed
from agent.diagnosis.where.kernel_values import FLOATS


def first(followed: Followed, target: Target) -> str | None:
    """A sentence, where the output is not finite, the truth is, and several kernels ran."""
    bad = ~torch.isfinite(target.y) & torch.isfinite(target.truth)
    if not bool(bad.any()) or len({kernel.name for kernel in followed.launches}) < 2:
        return None
    for launch, writings in followed.by_launch():
        for writing in writings:
            # A piece's type is not known: float32, unless its size is none of that type.
            dtype = next((d for d in FLOATS if writing.elements(d) is not None), None)
            elements = writing.elements(dtype) if dtype is not None else None
            if elements is None or dtype is None:
                continue
            written = elements[writing.written(dtype)]
            count = int((~torch.isfinite(written)).sum())
            if count:
                name = followed.kernel(launch).name
                return (
                    f"The first numbers that are not finite are written by kernel `{name}`: {count} of the "
                    f"{written.numel()} elements that it writes to one tensor."
                )
    return None
