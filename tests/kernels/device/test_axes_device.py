"""The device code that goes along dimensions, both directions, checked by the emulator, against float64."""

import numpy as np
import pytest
import torch
from kernels.device.plain_library import AXES, NUMBERS, Kit, exact, run

from agent.kernels.masked_softmax import operator as masked_softmax

EVERY = pytest.mark.parametrize("dtype", list(NUMBERS))


@EVERY
@pytest.mark.parametrize(
    ("queries", "keys", "offset"), [(3, 40, 0), (3, 33, 1), (2, 504, 0), (2, 2_000, 0), (1, 16_400, 0)]
)
@pytest.mark.parametrize(("kind", "causal"), [("none", True), ("named", False), ("added", True)])
def test_softmax_under_a_mask(
    queries: int, keys: int, offset: int, kind: str, causal: bool, dtype: str
) -> None:
    """Of two batches that share a mask and two heads that do not; a causal start before the first key."""
    kit, shape, start = Kit(dtype, offset, AXES), (2, 2, queries, keys), -1 if keys < 100 else keys // 2
    x, y, dx, grad = kit.draw(*shape), kit.room(*shape), kit.room(*shape), kit.draw(*shape)
    mask = None
    if kind == "named":
        mask = kit.device.empty(2 * keys + offset, "uint8")[offset:].reshape(2, 1, keys)
        mask[...] = kit.random.integers(0, 2, mask.shape)
        mask[1] = 0
    elif kind == "added":
        mask = kit.draw(2, 1, keys)
    number = getattr(masked_softmax, kind.upper())
    sizes, ends = (4 * queries, keys, queries), (0.5, causal, start, NUMBERS[dtype], 0, 0)
    steps = (2, 0, keys, 0, number)
    run(kit.device, "masked_softmax_forward", masked_softmax.FORWARD, x, mask, y, *sizes, *steps, *ends)
    truth, chosen = exact(x), None
    if mask is not None:
        chosen = torch.tensor(mask).bool() if kind == "named" else exact(mask).detach()
    wanted = masked_softmax.in_torch(truth, chosen, 0.5, causal, start)
    kit.close(y, wanted)
    run(kit.device, "masked_softmax_backward", masked_softmax.BACKWARD, grad, y, dx, *sizes, *ends)
    y64 = exact(y).detach()
    kit.close(dx, masked_softmax._compute_backward(exact(grad).detach(), y64, 0.5, causal, start)[0])


def test_infinite_scores_as_torch() -> None:
    kit = Kit("float32", 0, AXES)
    x, y = kit.draw(1, 4, 40), kit.room(1, 4, 40)
    x[0, 0, 3], x[0, 1, 5], x[0, 2, 7], x[0, 3] = np.nan, np.inf, -np.inf, -np.inf
    sizes, ends = (4, 40, 4, 1, 0, 0, 0), (0, 1.0, 0, 0, 0, 0, 0)
    run(kit.device, "masked_softmax_forward", masked_softmax.FORWARD, x, None, y, *sizes, *ends)
    kit.close(y, masked_softmax.in_torch(exact(x), None, 1.0, causal=False, start=0))
