"""Where an error starts, by what each kernel wrote."""

from pathlib import Path
from typing import Any

import pytest
import torch
from diagnosis import followed as recorded

from agent.diagnosis.graph import tensors
from agent.diagnosis.where import kernel_values, part, telling, values
from agent.diagnosis.where.following import Followed
from agent.diagnosis.where.telling import Told

Tensor = torch.Tensor
NORM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).square().mean(1, keepdim=True)
        normed = (x - mean) / torch.sqrt(variance + 1e-3)
        gated = normed * torch.sigmoid(x)
        return gated.cumsum(1)

def get_inputs():
    return [torch.randn(24, 40)]

def get_init_inputs():
    return []
"""


def _steps(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    mean = x.mean(1, keepdim=True)
    variance = (x - mean).square().mean(1, keepdim=True)
    normed = (x - mean) / torch.sqrt(variance + 1e-3)
    return mean, variance, normed, normed * torch.sigmoid(x)


def _strange(y: Tensor) -> Tensor:
    """An error that no wrong reference makes."""
    generator = torch.Generator().manual_seed(3)
    return y + torch.randn(y.shape, generator=generator)


def _told(folder: Path, output: Any, wrote: Any) -> Told:
    case, finding = recorded.case(folder, NORM, output)
    x = recorded.inputs(case)[0]
    return telling.told(case, recorded.followed(wrote(x), case.outputs), finding, 600.0)


def test_kernels_whose_values_are_right_leave_the_error_to_the_next(tmp_path: Path) -> None:
    def wrote(x: Tensor) -> list[recorded.Wrote]:
        mean, variance, *_ = _steps(x)
        return [("row_stats", (mean, variance)), ("normalise", (_output(x),))]

    def _output(x: Tensor) -> Tensor:
        return _strange(_steps(x)[3].cumsum(1))

    found = _told(tmp_path, lambda _, x: _output(x), wrote)
    assert found.explained is None
    assert found.sentences[0] == (
        "Rightly written of the reference: `mean` (line 7) and `variance` (line 8) by `row_stats`. "
        "The error starts in kernel `normalise`."
    )


def test_a_value_after_which_all_is_right_is_where_the_error_starts(tmp_path: Path) -> None:
    def normed(x: Tensor) -> Tensor:
        return torch.where(torch.arange(40) < 35, _steps(x)[2], _strange(x))

    def output(_: Any, x: Tensor) -> Tensor:
        return (normed(x) * torch.sigmoid(x)).cumsum(1)

    found = _told(tmp_path, output, lambda x: [("normalise", (normed(x),)), ("scan", (output(None, x),))])
    assert found.explained is None
    [said] = found.sentences
    assert said.startswith(
        "The error starts in kernel `normalise`: of `normed` (line 9) of the reference it writes 120 of 960 "
        "elements wrongly, from index 35 of dim 1 (size 40) on: its last 5, first "
    )
    assert said.endswith(" at (0, 35). All that follows is right.")


def test_what_wrong_elements_of_a_value_have_in_common_is_said(tmp_path: Path) -> None:
    chosen = torch.rand(24, 40, generator=torch.Generator().manual_seed(8)) < 0.3

    def normed(x: Tensor) -> Tensor:
        return torch.where(chosen, 0.3 * _steps(x)[2], _steps(x)[2])

    def output(_: Any, x: Tensor) -> Tensor:
        return (normed(x) * torch.sigmoid(x)).cumsum(1)

    found = _told(tmp_path, output, lambda x: [("normalise", (normed(x),)), ("scan", (output(None, x),))])
    assert f"writes {int(chosen.sum())} of 960 elements wrongly" in found.sentences[0]
    assert found.sentences[0].endswith(" (times 0.3 where finite). All that follows is right.")


def test_what_a_kernel_wrote_is_explained_like_an_output(tmp_path: Path) -> None:
    def normed(x: Tensor) -> Tensor:
        mean, variance, *_ = _steps(x)
        return (x - mean) / (torch.sqrt(variance) + 1e-3)

    def output(_: Any, x: Tensor) -> Tensor:
        return (normed(x) * torch.sigmoid(x)).cumsum(1)

    found = _told(tmp_path, output, lambda x: [("normalise", (normed(x),)), ("scan", (output(None, x),))])
    assert found.explained is not None
    assert found.explained.finding.kind == "eps-outside-root"
    assert found.explained.finding.message.startswith(
        "What kernel `normalise` writes as `normed` (line 9) of the reference equals the reference with "
    )
    assert found.explained.finding.message.endswith("All that follows is right.")


def test_a_value_that_is_right_in_part_names_the_first_kernel_that_goes_wrong(tmp_path: Path) -> None:
    def wrote(x: Tensor) -> list[recorded.Wrote]:
        mean, _, normed, gated = _steps(x)
        lost = torch.where(torch.arange(24)[:, None] < 20, normed, 0.0)
        return [("row_mean", (mean,)), ("normalise", (lost,)), ("scan", (_strange(gated.cumsum(1)),))]

    found = _told(tmp_path, lambda _, x: _strange(_steps(x)[3].cumsum(1)), wrote)
    assert found.sentences[0] == (
        "Rightly written of the reference: `mean` (line 7) by `row_mean`. The first kernel that goes wrong "
        "is `normalise`: of `normed` (line 9) of the reference it writes 160 of 960 elements otherwise, all "
        "after flat index 800: the last 160 of 960 elements."
    )


def test_copies_and_zeros_say_nothing(tmp_path: Path) -> None:
    def wrote(x: Tensor) -> list[recorded.Wrote]:
        return [("copy", (x, torch.zeros(50))), ("rest", (_strange(_steps(x)[3].cumsum(1)),))]

    assert _told(tmp_path, lambda _, x: _strange(_steps(x)[3].cumsum(1)), wrote).sentences == ()


def test_another_output_of_the_repeated_call_says_nothing(tmp_path: Path) -> None:
    case, finding = recorded.case(tmp_path, NORM, lambda _, x: _strange(_steps(x)[3].cumsum(1)))
    x = recorded.inputs(case)[0]
    wrote: list[recorded.Wrote] = [("row_stats", tuple(_steps(x)[:2])), ("rest", (x,))]
    other = recorded.followed(wrote, [torch.zeros_like(case.outputs[0])])
    assert telling.told(case, other, finding, 600.0) == Told()


def test_torch_in_between_may_be_at_fault_as_well(tmp_path: Path) -> None:
    case, finding = recorded.case(tmp_path, NORM, lambda _, x: _strange(_steps(x)[3].cumsum(1)))
    x = recorded.inputs(case)[0]
    wrote: list[recorded.Wrote] = [("row_stats", tuple(_steps(x)[:2])), ("rest", (case.outputs[0],))]
    seen = recorded.followed(wrote, case.outputs)._replace(operators=True)
    assert telling.told(case, seen, finding, 600.0).sentences[0].endswith("The error starts after that.")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (lambda m, v: m, "`mean` (line 7)"),
        (lambda m, v: -m, "`mean` (line 7) negated"),
        (lambda m, v: 40 * m, "`mean` (line 7) times 40"),
        (lambda m, v: v.sqrt(), "`variance` (line 8) as its root"),
        (lambda m, v: 1 / v, "`variance` (line 8) as its reciprocal"),
        (lambda m, v: torch.cat([m, v], 1), "`mean` (line 7), `variance` (line 8)"),
        (lambda m, v: torch.cat([m, v], 0), "`mean` (line 7), `variance` (line 8)"),
        (lambda m, v: 0.7 * m, ""),
        (lambda m, v: m + 0.01, ""),
    ],
)
def test_a_value_is_known_in_other_guises(tmp_path: Path, written: Any, told: str) -> None:
    case, _ = recorded.case(tmp_path, NORM, lambda _, x: _strange(_steps(x)[3].cumsum(1)))
    mean, variance, *_ = _steps(recorded.inputs(case)[0])
    assert ", ".join(_held(case.tape(), [written(mean, variance)], case)) == told


def test_a_value_is_known_transposed_and_in_half_precision(tmp_path: Path) -> None:
    case, _ = recorded.case(tmp_path, NORM, lambda _, x: _strange(_steps(x)[3].cumsum(1)))
    normed = _steps(recorded.inputs(case)[0])[2]
    turned = normed.t().contiguous()
    for written, how in ((turned, ""), (normed.half(), " in float16"), (turned.bfloat16(), " in bfloat16")):
        assert _held(case.tape(), [written], case) == [f"`normed` (line 9){how}"]


def _held(tape: Any, written: list[Tensor], case: Any) -> list[str]:
    found = values.list_values(tape, tensors(tape.result))
    seen: Followed = recorded.followed([("k", tuple(written))], case.outputs)
    sizes = kernel_values.sizes([*case.inputs, *case.truth])
    return [one.told for held in kernel_values.everywhere(seen, found, sizes).values() for one in held]


def test_operators_that_are_whole_have_values_on_their_way(tmp_path: Path) -> None:
    text = NORM.replace("return gated.cumsum(1)", "return torch.softmax(gated, 1) * x")
    case, _ = recorded.case(tmp_path, text, lambda _, x: _strange(_steps(x)[3].softmax(1) * x))
    gated = _steps(recorded.inputs(case)[0])[3]
    most = gated.amax(1)
    assert _held(case.tape(), [most], case) == ["the maximum of softmax (line 11)"]
    total = (gated - most[:, None]).exp().sum(1)
    assert _held(case.tape(), [total], case) == ["the sum of exponentials of softmax (line 11)"]


def test_two_values_of_one_kernel_are_told_together(tmp_path: Path) -> None:
    text = NORM.replace(
        "return gated.cumsum(1)", "return torch.logsumexp(gated, 1) + torch.logsumexp(gated, 0).mean()"
    )

    def sums(x: Tensor) -> tuple[Tensor, Tensor]:
        gated, noise = _steps(x)[3], torch.Generator().manual_seed(1)
        rows, columns = gated.logsumexp(1), gated.logsumexp(0)
        return tuple(t + 0.1 * torch.rand(t.shape, generator=noise) for t in (rows, columns))  # type: ignore[return-value]

    def output(_: Any, x: Tensor) -> Tensor:
        rows, columns = sums(x)
        return rows + columns.mean()

    case, finding = recorded.case(tmp_path, text, output)
    x = recorded.inputs(case)[0]
    seen = recorded.followed([("both", sums(x)), ("last", (case.outputs[0],))], case.outputs)
    [said] = telling.told(case, seen, finding, 600.0).sentences
    assert said.startswith("The error starts in kernel `both`: of the result of logsumexp (line 11)")
    assert "the result of logsumexp (line 11) it writes wrongly too. All that follows is right." in said


def test_the_kernel_of_the_first_number_that_is_not_finite_is_named(tmp_path: Path) -> None:
    def bad(x: Tensor) -> Tensor:
        normed = _steps(x)[2].clone()
        normed[3:5, 7] = torch.nan
        return _strange(normed)

    def output(_: Any, x: Tensor) -> Tensor:
        return (bad(x) * torch.sigmoid(x)).cumsum(1) + _strange(x)

    found = _told(tmp_path, output, lambda x: [("normalise", (bad(x),)), ("scan", (output(None, x),))])
    assert (
        "The first numbers that are not finite are written by kernel `normalise`: 2 of the 960 elements that "
        "it writes to one tensor."
    ) in found.sentences


def test_behind_values_that_are_right_the_cause_is_looked_for_in_what_is_left(tmp_path: Path) -> None:
    case, _ = recorded.case(tmp_path, NORM, lambda _, x: _strange(_steps(x)[3].cumsum(1)))
    tape = case.tape()
    found = {one.words: one for one in values.list_values(tape, tensors(tape.result))}
    right = tensors(found["`normed`"].call.result)[0]
    behind = part.cut_part(tape, tape.result, {id(right): "normed"})
    assert behind is not None
    assert [call.name for call in behind.calls] == ["sigmoid", "mul", "cumsum"]
    assert behind.name(right) == "normed"
    number = next(call.number for call in behind.calls if call.name == "sigmoid")
    made = behind.again({number: lambda given: torch.ones_like(given["self"])})
    assert torch.equal(made, right.cumsum(1))
    before = part.cut_part(tape, [right], {})
    assert before is not None
    assert {call.name for call in before.calls}.isdisjoint({"sigmoid", "cumsum"})
    assert torch.equal(tensors(before.again({}))[0], right)
