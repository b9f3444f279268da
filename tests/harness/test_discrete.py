"""Integers, masks and scalars take other values of the same meaning."""

import pytest
import torch

from agent.harness.truth import discrete
from agent.harness.truth.usage import IntegerUse


def varied(value: object, variant: str, use: IntegerUse | None = None, seed: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    new = discrete.varied(value, variant, use or IntegerUse(), generator)
    assert isinstance(new, torch.Tensor)
    return new


def values(tensor: torch.Tensor) -> set[float]:
    return set(tensor.reshape(-1).tolist())


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int64])
@pytest.mark.parametrize("variant", ["redrawn", "runs"])
def test_rows_of_a_mask_keep_both_values(dtype: torch.dtype, variant: str) -> None:
    mask = torch.tril(torch.ones(32, 32)).to(dtype)
    new = varied(mask, variant, IntegerUse(bounds=[2]))
    assert new.dtype is dtype
    assert values(new) == {0, 1}
    assert bool((new != 0).any(1).all()) and bool((new == 0).any(1).all())  # noqa: PT018
    assert not torch.equal(new, mask)


def test_ragged_masks_have_rows_of_a_single_value() -> None:
    mask = torch.zeros(16, 64).masked_fill(torch.rand(16, 64) < 0.3, float("-inf"))
    new = varied(mask, "ragged")
    assert values(new) == {float("-inf"), 0.0}
    assert bool((new == 0).all(1).any())
    assert bool((new != 0).all(1).any())


def test_an_index_stays_within_its_bound_and_reaches_it() -> None:
    use = IntegerUse(bounds=[100])
    for variant in ("redrawn", "ragged"):
        new = varied(torch.randint(0, 50, (20, 400)), variant, use)
        assert (int(new.min()), int(new.max())) == (0, 99)
    assert discrete.varied(torch.randint(0, 50, (20, 40)), "wide", use, torch.Generator()) is None


def test_sorted_rows_stay_sorted_and_segments_keep_their_ends() -> None:
    offsets = torch.arange(0, 640, 20)
    new = varied(offsets, "ragged", IntegerUse(is_stepped=True))
    assert bool((new.diff() >= 0).all())
    assert (int(new[0]), int(new[-1])) == (0, 620)
    assert not torch.equal(new, offsets)


def test_permutations_stay_permutations() -> None:
    rows = torch.stack([torch.randperm(30) for _ in range(4)])
    new = varied(rows, "ragged")
    assert torch.equal(new.sort(1).values, rows.sort(1).values)
    assert not torch.equal(new, rows)


def test_unique_indices_stay_unique() -> None:
    new = varied(torch.tensor([4, 9, 1, 7]), "redrawn", IntegerUse(bounds=[12], is_unique=True))
    assert len(values(new)) == 4


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_free_integers_are_negative_and_large(dtype: torch.dtype) -> None:
    new = varied(torch.randint(0, 100, (40, 40)).to(dtype), "wide")
    assert int(new.min()) < 0
    assert int(new.max()) > torch.iinfo(dtype).max >> 16


def test_scalars_take_other_values_of_their_kind() -> None:
    generator = torch.Generator().manual_seed(1)
    assert discrete.varied(True, "redrawn", IntegerUse(), generator) is False
    number = discrete.varied(3, "redrawn", IntegerUse(), generator)
    assert type(number) is int and number != 3 and number > 0  # noqa: PT018
    share = discrete.varied(0.1, "redrawn", IntegerUse(), generator)
    assert 0 < share < 1 and share != 0.1  # noqa: PT018


def test_what_the_reference_refuses_stays_and_is_named() -> None:
    inputs = [torch.randn(3), 4, torch.randint(0, 9, (5,))]

    def runs(changed: list[object]) -> str | None:
        return None if changed[1] == 4 else "the reference raises ValueError"

    found, fixed = discrete.supported(inputs, {}, runs, seed=2)
    assert found["redrawn"] == {2: "redrawn"}
    assert fixed == ["input 1 (int) stays as given: the reference raises ValueError"]
