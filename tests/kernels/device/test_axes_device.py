"""The device code that goes along dimensions, both directions, checked by the emulator, against float64."""

import math

import numpy as np
import pytest
import torch
from kernels.device.plain_library import AXES, NUMBERS, Kit, exact, run

from agent.kernels.batch_norm import operator as batch_norm
from agent.kernels.cross_entropy import operator as cross_entropy
from agent.kernels.cumsum import operator as cumsum
from agent.kernels.embedding_norm import operator as embedding_norm
from agent.kernels.group_norm import activation
from agent.kernels.linear_cross_entropy import operator as linear_cross_entropy
from agent.kernels.masked_softmax import operator as masked_softmax
from agent.kernels.rows import Parameters

F = torch.nn.functional
EVERY = pytest.mark.parametrize("dtype", list(NUMBERS))


@EVERY
@pytest.mark.parametrize(
    ("queries", "keys", "offset"),
    [(3, 8, 0), (3, 40, 0), (3, 33, 1), (2, 504, 0), (2, 2_000, 0), (1, 16_400, 0)],
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
    run(kit.device, "masked_softmax_backward", masked_softmax.BACKWARD, grad, y, dx, None, *sizes, 0, *ends)
    y64 = exact(y).detach()
    dx64 = masked_softmax._compute_backward(exact(grad).detach(), y64, 0.5, causal, start, 0)[0]
    assert dx64 is not None
    kit.close(dx, dx64)


@EVERY
@pytest.mark.parametrize(("parts", "queries", "keys"), [(3, 2, 40), (70, 5, 72), (300, 3, 7)])
def test_gradient_of_a_mask_that_parts_share(parts: int, queries: int, keys: int, dtype: str) -> None:
    """Whole packs and not; more parts than a block reads side by side, and than it has under way."""
    kit, shape = Kit(dtype, 0, AXES), (parts, queries, keys)
    y, grad, dx, dmask = kit.draw(*shape), kit.draw(*shape), kit.room(*shape), kit.room(queries * keys)
    sizes, ends = (parts * queries, keys, queries, parts), (0.25, 0, 0, NUMBERS[dtype], 0, 0)
    run(kit.device, "masked_softmax_backward", masked_softmax.BACKWARD, grad, y, dx, dmask, *sizes, *ends)
    kit.close(dmask, exact(dx).detach().view(parts, -1).sum(0) / 0.25)


def test_infinite_scores_as_torch() -> None:
    kit = Kit("float32", 0, AXES)
    x, y = kit.draw(1, 4, 40), kit.room(1, 4, 40)
    x[0, 0, 3], x[0, 1, 5], x[0, 2, 7], x[0, 3] = np.nan, np.inf, -np.inf, -np.inf
    sizes, ends = (4, 40, 4, 1, 0, 0, 0), (0, 1.0, 0, 0, 0, 0, 0)
    run(kit.device, "masked_softmax_forward", masked_softmax.FORWARD, x, None, y, *sizes, *ends)
    kit.close(y, masked_softmax.in_torch(exact(x), None, 1.0, causal=False, start=0))


@EVERY
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("sizes", "offset"),
    [((300, 7, 1), 1), ((70, 40, 1), 0), ((9, 61, 1), 1), ((40, 200, 1), 0), ((2, 1_000, 1), 1),
     ((300, 1_400, 1), 0), ((1, 36_872, 1), 0), ((3, 6_000, 1), 0), ((2, 9, 40), 0), ((3, 300, 3), 1),
     ((1, 5_000, 8), 0), ((64, 80, 160), 0), ((2, 40_008, 1), 0),
     ((2, 2_100, 24), 0)],  # blocks that follow each other
)  # fmt: skip
def test_cumulative_sums(sizes: tuple[int, int, int], offset: int, reverse: bool, dtype: str) -> None:
    kit = Kit(dtype, offset, AXES)
    x, y, workspace = kit.draw(*sizes), kit.room(*sizes), kit.device.empty(4 * math.prod(sizes), "uint8")
    run(kit.device, "cumsum_forward", cumsum.FORWARD, x, y, workspace, *sizes, reverse, NUMBERS[dtype], 0, 0)
    kit.close(y, cumsum.in_torch(exact(x), 1, None, reverse))


@EVERY
@pytest.mark.parametrize(
    ("shape", "is_last", "offset", "wide"),
    [((3, 5, 49), False, 0, False), ((2, 8, 56), False, 0, True), ((2, 3, 7), False, 1, False),
     ((70, 40, 1), False, 0, True), ((2, 24, 40), True, 0, False), ((2, 6, 7), True, 1, True),
     ((70, 3, 64), False, 0, False), ((50, 24, 49), True, 0, True)],
)  # fmt: skip
@pytest.mark.parametrize("act", ["none", "relu", "silu", "gelu"])
def test_norms_by_running_statistics(
    act: str, shape: tuple[int, int, int], is_last: bool, offset: int, wide: bool, dtype: str
) -> None:
    """`wide`: the parameters are float32, whatever elements are."""
    kit, (n, channels, spatial) = Kit(dtype, offset, AXES), shape
    laid = (n, spatial, channels) if is_last else shape
    x, residual, grad, y, dx, dz = *(kit.draw(*laid) for _ in range(3)), *(kit.room(*laid) for _ in range(3))
    stored = "float32" if wide else dtype
    of_channels = Kit(dtype, offset, AXES, stored)
    parameters = [of_channels.draw(channels, shift=shift) for shift in (0.0, 6.0, 1.0, 0.0)]
    numbers = (*shape, NUMBERS[dtype], NUMBERS[stored], int(is_last), activation.NUMBERS[act], 1e-3, 0, 0)
    run(
        kit.device, "batch_norm_forward", batch_norm.FORWARD,
        None, x, residual, *parameters, y, None, *numbers,
    )  # fmt: skip
    truth, before = exact(x), exact(residual)
    seen, added = (value.movedim(-1, 1) if is_last else value for value in (truth, before))
    mean, variance, weight, bias = map(exact, parameters)
    mean, variance = mean.detach(), variance.detach()
    z = F.batch_norm(seen, mean, variance, weight, bias, eps=1e-3) + added
    wanted = activation.value(z, act)
    kit.close(y, wanted.movedim(1, -1) if is_last else wanted)
    run(
        kit.device, "batch_norm_forward", batch_norm.FORWARD,
        grad, x, residual, *parameters, dx, dz, *numbers,
    )  # fmt: skip
    given = exact(grad).detach()
    wanted.backward(given.movedim(-1, 1) if is_last else given)
    for ours, theirs in ((dx, truth), (dz, before)):
        assert theirs.grad is not None
        kit.close(ours, theirs.grad)
    dx[...], dz[...] = math.nan, math.nan
    dweight, dbias = of_channels.room(channels), of_channels.room(channels)
    workspace = kit.floats(2 * math.prod(shape))
    run(
        kit.device, "batch_norm_backward", batch_norm.BACKWARD,
        grad, x, residual, *parameters, dx, dz, dweight, dbias, workspace, *numbers,
    )  # fmt: skip
    for ours, theirs in ((dx, truth), (dz, before), (dweight, weight), (dbias, bias)):
        assert theirs.grad is not None
        kit.close(ours, theirs.grad)


@EVERY
@pytest.mark.parametrize(("rows", "length", "offset"), [(9, 33, 1), (3, 2_000, 0), (2, 20_488, 0)])
@pytest.mark.parametrize(("smoothing", "z_loss"), [(0.0, 0.0), (0.1, 0.01)])
def test_losses_whose_gradient_takes_the_logits_place(
    rows: int, length: int, offset: int, smoothing: float, z_loss: float, dtype: str
) -> None:
    """The first row is ignored."""
    kit, ignored = Kit(dtype, offset, AXES), -3
    logits, target = kit.draw(rows, length, shift=20.0), kit.device.empty(rows, "int64")
    target[...] = kit.random.integers(0, length, rows)
    target[0] = ignored
    loss, share = kit.floats(rows), kit.floats(1)
    share[...] = 0.5
    truth = exact(logits)
    wanted = cross_entropy.in_torch(truth, torch.tensor(target), ignored, smoothing, z_loss)
    numbers = (rows, length, ignored, smoothing, z_loss)
    for gradient in (0, 1):
        run(
            kit.device, "linear_cross_entropy_forward", linear_cross_entropy.FORWARD,
            logits, target, share, loss, *numbers, gradient, NUMBERS[dtype], 0, 0,
        )  # fmt: skip
        kit.close(loss, wanted)
    (0.5 * wanted.sum()).backward()
    assert truth.grad is not None
    kit.close(logits, truth.grad)


@EVERY
@pytest.mark.parametrize("centred", [True, False], ids=["layer_norm", "rms_norm"])
@pytest.mark.parametrize(("features", "offset"), [(40, 0), (33, 1), (1_000, 0), (4_100, 1)])
def test_embeddings_and_their_norms(features: int, offset: int, centred: bool, dtype: str) -> None:
    """With positions where the norm is centred; a number that is no entry makes NaN and reads nothing."""
    kit, shape = Kit(dtype, offset, AXES), (2, 3)
    table, weight = kit.draw(7, features, shift=2.0), kit.draw(features)
    positions, bias = (kit.draw(3, features), kit.draw(features)) if centred else (None, None)
    ids, y, embedded = kit.device.empty(6, "int64"), kit.room(6, features), kit.room(6, features)
    ids[...] = [3, 0, 6, 1, 1, 7]
    rstd, mean = kit.floats(6), kit.floats(6) if centred else None
    run(
        kit.device, "embedding_norm_forward", embedding_norm.FORWARD,
        ids, table, positions, weight, bias, y, embedded, mean, rstd, 6, features, 7, 3, int(centred),
        NUMBERS[dtype], NUMBERS[dtype], 1e-3, 0, 0,
    )  # fmt: skip
    assert np.isnan(embedded[5]).all()
    assert np.isnan(y[5]).all()
    known = torch.tensor(ids).clamp(max=6).view(shape)
    words, scale = exact(table).detach(), exact(weight).detach()
    beside, shift = (None if one is None else exact(one).detach() for one in (positions, bias))
    wanted = embedding_norm.in_torch(
        known, (words, beside), Parameters(scale, shift), 1e-3, None, centred
    )  # fmt: skip
    for ours, theirs in ((embedded, wanted[1]), (y, wanted[0])):
        kit.close(ours[:5], theirs.reshape(6, features)[:5])


@EVERY
@pytest.mark.parametrize("is_sorted", [True, False], ids=["sorted", "unsorted"])
@pytest.mark.parametrize(("features", "offset"), [(40, 0), (33, 1), (1_400, 0)])
def test_rows_are_added_up_for_each_entry_of_a_table(
    features: int, offset: int, is_sorted: bool, dtype: str
) -> None:
    """Entries of no row, of a few, and of 32, 33 and 150; padding, and numbers that are no entry."""
    kit, entries, padding = Kit(dtype, offset, AXES), 300, 4
    numbers = torch.tensor([2] * 150 + [3] * 32 + [5] * 33 + [7, 0, 7, 4, 4, -1, 300, 8, 7, 135, 135, 299])
    numbers = numbers[torch.randperm(len(numbers), generator=torch.Generator().manual_seed(1))]
    rows = len(numbers)
    dx, dtable = kit.draw(rows, features), kit.room(entries, features)
    unsorted, ids, order = (kit.device.empty(rows, f"int{bits}") for bits in (64, 32, 64))
    unsorted[...], (ids[...], order[...]) = numbers, numbers.sort(stable=True)
    given = (None, ids, order) if is_sorted else (unsorted, None, None)
    run(
        kit.device, "embedding_norm_table_backward", embedding_norm.TABLE,
        dx, *given, dtable, rows, features, entries, padding, NUMBERS[dtype], 0, 0,
    )  # fmt: skip
    known = (numbers >= 0) & (numbers < entries) & (numbers != padding)
    wanted = torch.zeros(entries, features, dtype=torch.float64)
    kit.close(dtable, wanted.index_add(0, numbers[known], exact(dx).detach()[known]))
