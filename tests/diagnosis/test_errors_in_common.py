"""Where no wrong reference fits: what tells wrong elements from right ones, and what their errors share."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from diagnosis import followed as recorded

from agent.diagnosis.mismatch import dependencies, error_structure, mismatch_location, misplaced, ranges
from agent.diagnosis.mismatch.matching import Target

Tensor = torch.Tensor
REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.ones(width))

    def forward(self, x, start):
        shares = torch.softmax(x, 2)
        mixed = shares @ x.transpose(1, 2)
        shifted = mixed + self.bias
        return torch.tanh(shifted) * 2.0 + start[:, None, None]

def get_inputs():
    return [torch.randn(5, 12, 30), torch.arange(5.0)]

def get_init_inputs():
    return [12]
"""


def _steps(m: Any, x: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    shifted = x.softmax(2) @ x.transpose(1, 2) + m.bias
    return shifted, torch.tanh(shifted) * 2.0 + start[:, None, None]


def _both(folder: Path, output: Any) -> tuple[str | None, str | None]:
    """What tells wrong elements apart, and what errors have in common."""
    case, _ = recorded.case(folder, REFERENCE, output)
    target, tape = Target(case.outputs[0], case.truth[0], case.limits[0]), case.tape()
    return ranges.describe_range(tape, target), error_structure.describe_structure(tape, 0, target)


def _noise(y: Tensor) -> Tensor:
    return 1.0 + torch.rand(y.shape, generator=torch.Generator().manual_seed(2))


def test_rows_whose_maximum_comes_late_are_told(tmp_path: Path) -> None:
    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        y = _steps(m, x, start)[1]
        return torch.where(x.argmax(2, keepdim=True) >= 8, y + _noise(y), y)

    said, _ = _both(tmp_path, output)
    assert said == "where the maximum of a row of softmax along dim 2 comes at index 8 or later"


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (lambda v: v > 1.2, "above"),
        (lambda v: v < 0.3, "below"),
        (lambda v: (v < 0.2) | (v > 1.6), "outside of"),
        (lambda v: (v > 0.4) & (v < 1.1), "from"),
    ],
)
def test_the_range_of_a_value_is_told(tmp_path: Path, chosen: Any, words: str) -> None:
    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        shifted, y = _steps(m, x, start)
        return torch.where(chosen(shifted), y + _noise(y), y)

    said, _ = _both(tmp_path, output)
    assert said is not None
    assert said.startswith(f"where the result of add (`shifted = mixed + self.bias`) is {words} ")


def test_an_input_that_counts_for_a_whole_row_is_told_by_its_value(tmp_path: Path) -> None:
    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        y = _steps(m, x, start)[1]
        return torch.where(start[:, None, None] == start[3], y, y + _noise(y))

    said, _ = _both(tmp_path, output)
    assert said is not None
    assert said.startswith("where `input 1` is other than ")


def test_an_error_that_grows_with_a_value_has_no_range(tmp_path: Path) -> None:
    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        shifted, y = _steps(m, x, start)
        return y + 1e-3 * shifted.abs() ** 9

    assert _both(tmp_path, output)[0] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y, r: y * (1 + r[:5, None, None]),
         "For each index of dim 0 all elements are the right ones times 1."),
        (lambda y, r: y + r[:12], "For each index of dim 2 all elements are the right ones plus 0."),
        (lambda y, r: y * (1 + r[:5, None, None]) + r[5:10, None, None],
         "For each index of dim 0 all elements are the right ones times 1."),
        (lambda y, r: y * (1 + r.reshape(5, 12)[:, :, None]),
         "For each index of dims 0, 1 all elements are the right ones times 1 to 1.99:"),
        (lambda y, r: y * 1.5 + 0.25, "All elements are the right ones times 1.5, plus 0.25."),
    ],
)  # fmt: skip
def test_one_number_for_each_row_is_told(tmp_path: Path, change: Any, words: str) -> None:
    numbers = torch.rand(60, generator=torch.Generator().manual_seed(4))

    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        return torch.as_tensor(change(_steps(m, x, start)[1], numbers))

    said = _both(tmp_path, output)[1]
    assert said is not None
    assert said.startswith(words)


def test_the_end_of_the_reference_is_taken_back(tmp_path: Path) -> None:
    numbers = 0.2 * torch.rand(12, generator=torch.Generator().manual_seed(4))

    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        return torch.tanh(_steps(m, x, start)[0] - numbers) * 2.0 + start[:, None, None]

    said = _both(tmp_path, output)[1]
    assert said is not None
    assert said.startswith(
        "Taken back to the result of add (`shifted = mixed + self.bias`): for each index of dim 2 "
    )
    assert said.endswith(": a number taken once for each is wrong.")


def test_errors_of_their_own_have_nothing_in_common(tmp_path: Path) -> None:
    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        return _steps(m, x, start)[1] * _noise(torch.empty(5, 12, 12))

    assert _both(tmp_path, output) == (None, None)


def test_few_indices_that_are_right_are_listed() -> None:
    wrong = torch.rand(6, 9, 5, generator=torch.Generator().manual_seed(1)) > 0.4
    wrong[:, [0, 4, 7]] = False
    [found] = [p.words for p in mismatch_location.patterns(wrong, ()) if "dim 1" in p.words]
    assert found == "at every index of dim 1 (size 9) but 0, 4, 7"


def test_prelu_is_taken_back_through_its_slopes(tmp_path: Path) -> None:
    text = REFERENCE.replace("torch.tanh(shifted) * 2.0", "torch.prelu(shifted, self.bias)")
    numbers = torch.rand(12, generator=torch.Generator().manual_seed(4))

    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        return F.prelu(_steps(m, x, start)[0] + numbers, m.bias) + start[:, None, None]

    case, _ = recorded.case(tmp_path, text, output)
    target = Target(case.outputs[0], case.truth[0], case.limits[0])
    said = error_structure.describe_structure(case.tape(), 0, target)
    assert said is not None
    assert "for each index of dim 2 all elements are the right ones plus" in said


def test_the_first_wrong_element_comes_with_the_few_inputs_it_depends_on(tmp_path: Path) -> None:
    text = REFERENCE.replace("torch.tanh(shifted) * 2.0", "(x[..., :12] * self.bias).relu()")

    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        y = (x[..., :12] * m.bias).relu() + start[:, None, None]
        return torch.where((y - start[:, None, None] > 0) & (start[:, None, None] > 1), y + _noise(y), y)

    case, _ = recorded.case(tmp_path, text, output)
    target = Target(case.outputs[0], case.truth[0], case.limits[0])
    at = tuple(int(place) for place in target.wrong.reshape(target.shape).nonzero()[0])
    x, start = case.inputs
    bias = case.parameters["bias"].detach()
    assert dependencies.describe_dependency(case, case.tape(), 0, target) == (
        f"At the first wrong element, {at}, the reference's gradient has "
        f"input 0[{', '.join(map(str, at))}] = {float(x[at]):.4g} and input 1[{at[0]}] = "
        f"{float(start[at[0]]):.4g} and bias[{at[2]}] = {float(bias[at[2]]):.4g} alone."
    )
    assert not x.requires_grad


def test_an_element_that_depends_on_many_inputs_comes_alone(tmp_path: Path) -> None:
    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        return _steps(m, x, start)[1] * 3

    case, _ = recorded.case(tmp_path, REFERENCE, output)
    target = Target(case.outputs[0], case.truth[0], case.limits[0])
    assert dependencies.describe_dependency(case, case.tape(), 0, target) is None


SELECTION = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool1d(x, 3, 2)

def get_inputs():
    return [torch.randn(4, 6, 41)]

def get_init_inputs():
    return []
"""


def test_another_element_of_the_input_is_told_by_its_place(tmp_path: Path) -> None:
    case, _ = recorded.case(tmp_path, SELECTION, lambda _, x: F.max_pool1d(x, 4, 2, 1))
    target = Target(case.outputs[0], case.truth[0], case.limits[0])
    x, at = case.inputs[0], tuple(target.wrong.reshape(target.shape).nonzero()[0].tolist())
    said = misplaced.describe_misplaced(case, target)
    held, right = (
        (x == value[at]).nonzero()[0].tolist() for value in (case.outputs[0].double(), case.truth[0])
    )
    assert said == (
        f"Every element is one of input 0, the wrong ones another one: {at} holds input 0{held}, right is "
        f"input 0{right}."
    )


def test_right_values_in_other_places_are_told(tmp_path: Path) -> None:
    def output(m: Any, x: Tensor, start: Tensor) -> Tensor:
        return _steps(m, x, start)[1].transpose(1, 2).contiguous()

    case, _ = recorded.case(tmp_path, REFERENCE, output)
    target = Target(case.outputs[0], case.truth[0], case.limits[0])
    assert misplaced.describe_misplaced(case, target) == (
        "Every wrong element holds the right value of another place: (0, 0, 1) has that of (0, 1, 0)."
    )


def test_values_of_their_own_have_no_place(tmp_path: Path) -> None:
    case, _ = recorded.case(tmp_path, SELECTION, lambda _, x: F.avg_pool1d(x, 3, 2))
    assert misplaced.describe_misplaced(case, Target(case.outputs[0], case.truth[0], case.limits[0])) is None
