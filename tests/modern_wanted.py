"""Outputs that the broken kernels of `emulator/modern` would give if their fault had no effect."""

from collections.abc import Callable

import numpy as np
from device_library import Array

Arrays = tuple[Array, ...]
"""Arrays that the tests' `launched` returns: the inputs, then the output."""


def copied(count: int) -> Callable[[Arrays], Array]:
    return lambda arrays: arrays[0].ravel()[:count]


def _loaded(tile: Array) -> Array:
    """Return for each lane the sum of the words that `ldmatrix.x4` loads from a 16 x 16 tile of halves."""
    words = np.ascontiguousarray(tile).view("uint32").reshape(16, 8).astype("uint64")
    lane = np.arange(32)
    parts = [words[matrix % 2 * 8 + lane // 4, matrix // 2 * 4 + lane % 4] for matrix in range(4)]
    total: Array = np.sum(parts, 0) % 2**32
    return total.astype("float32")


def loaded_early(arrays: Arrays) -> Array:
    return np.tile(_loaded(arrays[0][:256].reshape(16, 16)), 2)


def overwritten_early(arrays: Arrays) -> Array:
    return np.tile(sum(_loaded(tile) for tile in arrays[0].reshape(2, 16, 16)), 2)


def product(arrays: Arrays, columns: int = 16) -> Array:
    a, b = (array[:, :columns].astype("float32") for array in arrays[:2])
    sums: Array = a @ b.T
    return sums


def fragments(sums: Array) -> Array:
    """Return the accumulators of each of 128 threads, in register order, from the 64 x N product."""
    t, i = np.arange(128)[:, None], np.arange(16)
    held: Array = sums[t // 32 * 16 + t % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + t % 4 * 2 + i % 2]
    return held


def factor_changed(arrays: Arrays) -> Array:
    """Return the sum of 16 products. In product i, A holds halves with the bits of thread number + i."""
    thread, total = np.arange(128), np.zeros((64, 32), "float32")
    for step in range(16):
        a = np.zeros((64, 16), "float16")
        bits = (thread + step).astype("uint16").view("float16")
        a[thread // 32 * 16 + thread % 32 // 4, thread % 4 * 2] = bits
        total += a.astype("float32") @ arrays[1].astype("float32").T
    return total


def given_back_early(arrays: Arrays) -> Array:
    a, b = arrays[:2]
    return product((a, b)) + product((a[:, 64:], b[:, 64:]))


WANTED: dict[str, Callable[[Arrays], Array]] = {
    "barriers.pairs_mixed_up": lambda arrays: arrays[0][np.arange(128) ^ 63],
    "barriers.never_empty": lambda arrays: 2 * arrays[0][:256].reshape(4, 64)[:, ::-1],
    "barriers.refilled_early": lambda arrays: 2 * arrays[0][:128].reshape(2, 64)[:, ::-1],
    "barriers.counts_differ": copied(128),
    "barriers.no_whole_warps": copied(128),
    "barriers.sixteenth": copied(128),
    "matrices.loaded_early": loaded_early,
    "matrices.overwritten_early": overwritten_early,
    "copies.not_waited": copied(128),
    "copies.one_warp_waits": copied(128),
    "copies.wrong_parity": copied(128),
    "copies.refilled": lambda arrays: arrays[0][:192].reshape(2, 96)[:, ::-1].sum(0),
    "copies.refilled_unfenced": lambda arrays: arrays[0][:192].reshape(2, 96)[:, ::-1].sum(0),
    "copies.no_proxy_fence": copied(128),
    "copies.source_reused": copied(256),
    "copies.never_made": copied(128),
    "copies.too_many": copied(128),
    "copies.left_behind": copied(128),
    "clusters.not_met": copied(64),
    "clusters.left_early": copied(64),
    "clusters.half_comes": copied(64),
    "clusters.not_arrived": copied(64),
    "clusters.met_at_home": copied(64),
    "clusters.relaxed_arrival": copied(64),
    "clusters.written_again": copied(64),
    "clusters.both_write": copied(64),
    "clusters.may_be_gone": copied(64),
    "clusters.kept_pointer": copied(64),
    "tensors.crooked": lambda arrays: np.tile(arrays[0].ravel()[28:60], 4),
    "tensors.small_tile": lambda arrays: np.tile(arrays[0][1], 4),
    "tensors.stored_before": lambda arrays: np.ones(128),
    "tensors.between_units": lambda arrays: np.tile(np.pad(arrays[0], ((0, 0), (0, 2)))[0, 2:], 4),
    "warpgroups.read_early": lambda arrays: fragments(product(arrays)).sum(1),
    "warpgroups.waits_for_one": lambda arrays: 2 * fragments(product(arrays))[:, 0] + 1,
    "warpgroups.factor_changed": factor_changed,
    "warpgroups.no_fence": lambda arrays: product(arrays) + 1,
    "warpgroups.scaled_late": lambda arrays: product(arrays) + 2,
    "warpgroups.refilled": product,
    "warpgroups.unseen": product,
    "warpgroups.no_barrier": product,
    "warpgroups.left_behind": lambda arrays: np.ones(128),
    "warpgroups.other_swizzle": product,
    "warpgroups.given_back_early": given_back_early,
}
"""Expected output by `source.kernel`.

Kernels that cannot be right, such as reads of unwritten memory, have none.
"""
