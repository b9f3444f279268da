"""Operators that are computed by their parts: a slip in one part is named."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from diagnosis.labels import PROBLEMS, kinds

from agent.harness.oracle import explanation
from agent.harness.truth.reference import Reference
from agent.records import Finding

Wrong = Callable[..., Any]
SLIPS: tuple[tuple[str, str, Wrong], ...] = (
    ("avg_pool_ceil", "pool-divisor", lambda m, x: F.avg_pool2d(x, 3, 2, 1, True, divisor_override=9)),
    ("avg_pool_override", "pool-divisor", lambda m, x: F.avg_pool2d(x, (2, 3), (2, 3))),
    ("avg_pool3d", "pool-divisor", lambda m, x: F.avg_pool3d(x, (2, 3, 3), 2, (0, 1, 1), False, False)),
    ("max_pool1d", "pool-start-value", lambda m, x: F.max_pool1d(F.pad(x, (2, 2)), 5, 3)),
    ("adaptive_max1d", "pool-start-value", lambda m, x: F.adaptive_max_pool1d(x, 9).clamp_min(0)),
    (
        "bilinear_resize",
        "align-corners",
        lambda m, x: F.interpolate(x, (19, 27), mode="bilinear", align_corners=True),
    ),
    ("bicubic_resize", "interpolation-mode", lambda m, x: F.interpolate(x, (21, 26), mode="bilinear")),
    ("grid_sample_border", "padding-mode", lambda m, x, g: F.grid_sample(x, g, align_corners=True)),
    ("grid_sample_zeros", "coordinates-swapped", lambda m, x, g: m(x, g.flip(-1))),
    ("circular_pad", "padding-sides-swapped", lambda m, x: F.pad(x, (2, 4), mode="circular")),
    ("reflect_pad", "padding-mode", lambda m, x: F.pad(x, (3, 1, 2, 4), mode="replicate")),
    ("constant_pad", "wrong-fill-value", lambda m, x: F.pad(x, (1, 2, 3, 1))),
    ("cumsum_middle", "scan-not-reset", lambda m, x: x.reshape(210, 45).cumsum(0).reshape(x.shape)),
    ("cumsum_counts", "scan-exclusive", lambda m, x: x.cumsum(1) - x),
    ("exclusive_cumsum", "scan-inclusive", lambda m, x: x.cumsum(1)),
    ("cummax_columns", "tie-order", lambda m, x: (x.cummax(0)[0], _first_places(x))),
    ("convt1d_grouped", "flipped-filter", lambda m, x: _turned(m, x)),
)


def _resized(x: torch.Tensor, size: tuple[int, int], corners: bool) -> torch.Tensor:
    return F.interpolate(x, size, mode="bilinear", align_corners=corners)


def _first_places(x: torch.Tensor) -> torch.Tensor:
    """Where a running maximum was first met."""
    values = x.cummax(0)[0]
    new = torch.cat([torch.ones(1, x.shape[1], dtype=torch.bool), values[1:] > values[:-1]])
    return torch.where(new, torch.arange(len(x)).unsqueeze(1), 0).cummax(0)[0]


def _turned(m: Any, x: torch.Tensor) -> torch.Tensor:
    c = m.conv
    output: torch.Tensor = F.conv_transpose1d(
        x, c.weight.flip(-1), c.bias, c.stride, c.padding, c.output_padding, c.groups, c.dilation
    )
    return output


@pytest.mark.parametrize(("problem", "kind", "wrong"), SLIPS, ids=[f"{p}-{k}" for p, k, _ in SLIPS])
def test_the_part_is_named(problem: str, kind: str, wrong: Wrong) -> None:
    reference = Reference(PROBLEMS / f"{problem}.py", "cpu")
    reference.perturb(3)
    draw = reference.draw(4)
    assert draw is not None
    with torch.no_grad():
        output = wrong(reference.model, *draw.inputs)
    found = Finding.model_validate(draw.expected.compare(output)["finding"])
    named = explanation.Explaining(reference, "", found).of_values(draw, output)["finding"]
    assert named["kind"] == kind, named["message"]
    assert kind in kinds()
