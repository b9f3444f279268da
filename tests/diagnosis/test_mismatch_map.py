"""The picture of where an output is wrong: which axes it takes, what its cells say, how large it is."""

import pytest
import torch
from pydantic import ValidationError
from transcripts import evaluation

from agent.diagnosis.mismatch import error_map
from agent.harness.truth.tolerance import Expected
from agent.records import Evaluation, MismatchMap, Status

MOST_BYTES = 3 * 1024


def mask(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bool)


def test_a_lost_last_tile_is_shown_along_its_axes() -> None:
    wrong = mask(4, 3, 40, 96)
    wrong[..., 32:, 92:] = True
    seen = error_map.draw_map(wrong)
    assert [str(axis) for axis in seen.axes] == ["dim 2 (0..39)", "dim 3 (0..95)"]
    assert (seen.wrong, seen.total, seen.shape) == (4 * 3 * 8 * 4, wrong.numel(), (4, 3, 40, 96))
    assert seen.cells[0] == "0" * 48
    assert seen.cells[39] == "0" * 46 + "99"


def test_the_axes_that_say_most_are_taken_wherever_they_stand() -> None:
    wrong = mask(6, 5, 64, 64)
    wrong[4, 2] = True
    seen = error_map.draw_map(wrong)
    assert [axis.name for axis in seen.axes] == ["dim 0", "dim 1"]
    assert seen.cells == ("00000", "00000", "00000", "00000", "00900", "00000")


def test_what_only_two_axes_together_show_is_found() -> None:
    """On a checkerboard every single axis is half wrong throughout."""
    place = torch.arange(8)
    wrong = ((place[:, None] + place[None, :]) % 2 == 0).reshape(8, 1, 8).expand(8, 3, 8)
    seen = error_map.draw_map(wrong)
    assert [axis.name for axis in seen.axes] == ["dim 0", "dim 2"]
    assert seen.cells[:2] == ("90909090", "09090909")


def test_shares_are_eighths_and_nothing_wrong_or_right_is_rounded_away() -> None:
    wrong = mask(2, 48_000)
    for cell, count in enumerate((1, 125, 126, 500, 999, 1000)):
        wrong[1, 1000 * cell : 1000 * cell + count] = True
    assert error_map.draw_map(wrong).cells == ("0" * 48, "112489" + "0" * 42)


def test_one_dimension_is_folded_in_the_order_of_memory() -> None:
    wrong = mask(4000)
    wrong[torch.arange(4000) % 96 == 95] = True
    seen = error_map.draw_map(wrong)
    assert [axis.name for axis in seen.axes] == ["index // 96", "index % 96"]
    assert seen.cells[0] == "0" * 47 + "4"
    assert error_map.draw_map(torch.ones(1, dtype=torch.bool)).cells == ("9" + "0" * 31,)


@pytest.mark.parametrize("shape", [(500, 500), (3, 77, 5, 200), (100_000,), (1, 1), (49,)])
def test_the_worst_case_stays_small_and_covers_every_element(shape: tuple[int, ...]) -> None:
    wrong = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.5
    wrong.reshape(-1)[0] = True
    seen = error_map.draw_map(wrong)
    assert len(seen.model_dump_json()) <= MOST_BYTES
    assert seen.wrong == int(wrong.sum())
    assert len({len(row) for row in seen.cells}) == 1


def test_the_mask_is_what_the_comparison_refuses() -> None:
    truth = torch.linspace(-2, 2, 24, dtype=torch.float64).reshape(4, 6)
    native = truth.float()
    native[3, 5] = float("inf")
    expected = Expected((native, native > 0), (native, native > 0), (truth, truth > 0))
    output = native.clone()
    assert expected.wrong((output, native > 0)) is None
    output[1, 2] += 1.0
    output[2, 3] = float("nan")
    output[3, 5] = float("-inf")
    index, wrong = expected.wrong((output, native > 0)) or (None, mask(1))
    assert index == 0
    assert wrong.nonzero().tolist() == [[1, 2], [2, 3], [3, 5]]
    index, wrong = expected.wrong((native, native <= 0)) or (None, mask(1))
    assert index == 1
    assert bool(wrong.all())


def test_only_an_incorrect_candidate_has_one() -> None:
    seen = error_map.draw_map(torch.ones(2, 2, dtype=torch.bool))
    wrong = evaluation(Status.INCORRECT).model_copy(update={"mismatch": seen})
    assert Evaluation.model_validate_json(wrong.model_dump_json()).mismatch == seen
    with pytest.raises(ValidationError, match="only an incorrect candidate"):
        Evaluation.model_validate(evaluation(Status.BUILD_ERROR).model_dump() | {"mismatch": seen})
    with pytest.raises(ValidationError, match="cells"):
        MismatchMap.model_validate(seen.model_dump() | {"cells": ("<script>",)})
