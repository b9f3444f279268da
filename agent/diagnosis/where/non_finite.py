"""Search for the kernel that wrote the first non-finite number."""

import torch

from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.where.following import Followed
from agent.diagnosis.where.kernel_values import FLOATS


def first(followed: Followed, target: Target) -> str | None:
    """Return a sentence that names the kernel, or None.

    Only an output with non-finite elements whose truth is finite, computed by several kernels, is searched.
    """
    bad = ~torch.isfinite(target.y) & torch.isfinite(target.truth)
    if not bool(bad.any()) or len({kernel.name for kernel in followed.launches}) < 2:
        return None
    for launch, writings in followed.by_launch():
        for writing in writings:
            # The element type is unknown; float32 is assumed unless the size does not fit.
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
