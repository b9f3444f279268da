"""Ground truth in slices: the same as the whole where rows are independent, and never where they are not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from agent.harness.truth import slices

Run = Callable[[list[Any]], Any]


def inputs(rows: int = 12) -> list[Any]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(rows, 5, generator=generator), torch.randn(5, 4, generator=generator), 0.5]


def product(given: list[Any]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    x, weight, factor = given
    return torch.softmax(x @ weight, 1), {"sign": (x.sum(1) * factor) > 0}


def centred(given: list[Any]) -> torch.Tensor:
    return torch.as_tensor(given[0] - given[0].mean(0))


def numbered(given: list[Any]) -> torch.Tensor:
    return torch.as_tensor(given[0] + torch.arange(given[0].shape[0])[:, None])


def reduced(given: list[Any]) -> torch.Tensor:
    return torch.as_tensor(given[0].sum())


@pytest.mark.parametrize(
    ("run", "independent"), [(product, True), (centred, False), (numbered, False), (reduced, False)]
)
def test_only_independent_rows_are_run_alone(run: Run, independent: bool) -> None:
    assert slices.are_independent(run, inputs(), run(inputs())) is independent


@pytest.mark.parametrize("pieces", [2, 5, 12])
def test_joined_slices_are_the_whole(pieces: int) -> None:
    whole, parts = product(inputs()), slices.joined(product, inputs(), 12, pieces)
    torch.testing.assert_close(parts[0], whole[0])
    assert torch.equal(parts[1]["sign"], whole[1]["sign"])


def test_few_rows_are_not_cut() -> None:
    few = inputs(rows=3)
    assert not slices.are_independent(product, few, product(few))
