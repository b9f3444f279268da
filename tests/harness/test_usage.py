"""Use of a reference's inputs, as a run of it shows."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from agent.harness.truth.usage import IntegerUse, Usage


def used(run: Callable[..., Any], *inputs: torch.Tensor) -> Usage:
    usage = Usage(inputs)
    with torch.no_grad(), usage:
        run(*inputs)
    return usage


IDS = torch.randint(0, 5, (4, 6))


@pytest.mark.parametrize(
    ("run", "size"),
    [
        (lambda ids: F.embedding(ids, torch.randn(9, 3)), 9),
        (lambda ids: torch.randn(9, 3)[ids.view(-1)], 9),
        (lambda ids: torch.randn(4, 11).gather(1, ids), 11),
        (lambda ids: torch.randn(7, 8).index_select(0, ids.reshape(-1).long()), 7),
        (lambda ids: F.cross_entropy(torch.randn(24, 13), ids.reshape(-1)), 13),
    ],
)
def test_an_index_has_the_bound_of_what_it_indexes(run: Callable[..., Any], size: int) -> None:
    assert used(run, IDS).integers[0].bounds == [size]


def test_the_default_ignored_label_is_special_where_the_labels_have_it() -> None:
    def loss(ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(torch.randn(24, 13), ids.reshape(-1))

    assert used(loss, IDS).integers[0].special == set()
    some = IDS.clone()
    some.view(-1)[3] = -100
    assert used(loss, some).integers[0].special == {-100}


def test_an_ignored_label_is_a_special_value() -> None:
    usage = used(lambda ids: F.cross_entropy(torch.randn(24, 13), ids.reshape(-1), ignore_index=-7), IDS)
    assert usage.integers[0].special == {-7}


def test_an_index_that_is_computed_bounds_nothing() -> None:
    use = used(lambda ids: F.embedding(ids + 2, torch.randn(9, 3)), IDS).integers[0]
    assert (use.bounds, use.is_derived) == ([], True)


def test_lengths_have_the_range_of_what_they_are_compared_with() -> None:
    lengths = torch.tensor([3, 2])
    use = used(lambda n: torch.arange(6)[None] < n[:, None], lengths).integers[0]
    assert (min(use.compared), max(use.compared), use.is_free) == (0, 5, False)


def test_arithmetic_leaves_an_integer_free() -> None:
    assert used(lambda x: torch.cumsum(x, 1) * 3, IDS).integers[0] == IntegerUse()


def test_thresholds_are_mapped_back_to_the_input() -> None:
    x = torch.randn(5)
    far = used(lambda x: torch.clamp(x * 3.0 + 1.0, -1e6, 1e6), x).floats[0]
    assert far.mapped == pytest.approx([(-1e6 - 1) / 3, (1e6 - 1) / 3])
    assert [float(edge) for edge in used(lambda x: F.hardshrink(x, 0.5), x).floats[0].exact] == [0.5, -0.5]
    assert used(torch.nan_to_num, x).floats[0].takes_non_finite
    assert used(lambda x: x.view(1, 5) @ torch.randn(5, 2), x).floats[0].is_multiplied
