"""Wrong shapes: which formula gives the right size, and which slip the wrong one."""

import pytest
import torch

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
