"""Wrong shapes: which formula gives the right size, and which slip the wrong one."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from agent.diagnosis.mismatch import shapes
from agent.diagnosis.tape import record
from agent.records import Finding

FOUND = Finding(kind="wrong-shape", message="The shape is wrong.")


def _told(operator: str, shape: tuple[int, ...], given: tuple[int, ...]) -> str:
    space = {"torch": torch, "F": torch.nn.functional, "x": torch.randn(shape), "w": torch.randn(4, 4, 3, 5)}
    tape = record(lambda: eval(operator, space), {id(space["x"]): "input 0"})
    [made] = [tuple(tape.result.shape)]
    return shapes.explain(tape, given, made, FOUND).message


@pytest.mark.parametrize(
    ("operator", "given", "said"),
    [
        ("F.max_pool2d(x, 3, 2, 1)", (2, 4, 9, 11),
         "Right is floor((20 + 2 * 1 - 1 * (3 - 1) - 1) / 2) + 1 = 10 for dim -2"),
        ("F.max_pool2d(x, 3, 2, 1)", (2, 4, 9, 11), "; without padding it is 9"),
        ("F.avg_pool2d(x, 3, 2, ceil_mode=True)", (2, 4, 9, 11), "; rounded down it is 9"),
        ("F.conv2d(x, w, stride=(2, 1))", (2, 4, 8, 19), "; without the + 1 it is 8"),
        ("F.conv2d(x, w, padding=(2, 2), dilation=(2, 1))", (2, 4, 22, 24), "; with dilation 1 it is 22"),
        ("F.conv_transpose2d(x, w, stride=2, output_padding=1)", (2, 4, 41, 50),
         "Right is (20 - 1) * 2 - 2 * 0 + 1 * (3 - 1) + 1 + 1 = 42 for dim -2"),
        ("F.conv_transpose2d(x, w, stride=2, output_padding=1)", (2, 4, 41, 50),
         "; without output_padding it is 41"),
    ],
)  # fmt: skip
def test_the_formula_and_the_slip(operator: str, given: tuple[int, ...], said: str) -> None:
    assert said in _told(operator, (2, 4, 20, 23), given)


def test_a_size_of_no_known_slip_gets_the_formula_alone() -> None:
    message = _told("F.max_pool2d(x, 3, 2, 1)", (2, 4, 20, 23), (2, 4, 3, 12))
    assert "= 10 for dim -2" in message
    assert " it is " not in message


@given(st.integers(4, 20), st.integers(1, 4), st.integers(1, 4), st.integers(1, 2), st.data())
def test_a_window_has_torch_s_size(
    size: int, kernel: int, stride: int, dilation: int, data: st.DataObject
) -> None:
    padding = data.draw(st.integers(0, kernel // 2))
    if size + 2 * padding < dilation * (kernel - 1) + 1:
        return
    made = F.max_pool1d(torch.zeros(1, 1, size), kernel, stride, padding, dilation, ceil_mode=True)
    assert shapes._Window(kernel, stride, padding, dilation, ceil=True).of(size)[1] == made.shape[-1]
