"""Sizes as Python: what stands there gives the right number, in whatever it is put."""

from types import SimpleNamespace

import pytest

from agent.compose.declined import Declined
from agent.compose.dims import Dim
from agent.compose.expressions import Sizes

SHAPES: dict[str, tuple[Dim, ...]] = {"x": ((12, 6), (8, 8), (30, 14)), "weight": ((5, 5), (8, 8))}


def sizes() -> Sizes:
    made = Sizes(2, {(4, 4): "groups"})
    for name, shape in SHAPES.items():
        made.add(name, shape)
    return made


def value(text: str, point: int) -> int:
    names = {name: SimpleNamespace(shape=[d[point] for d in shape]) for name, shape in SHAPES.items()}
    return int(eval(text, {}, {**names, "groups": 4}))


@pytest.mark.parametrize(
    "size",
    [
        (12, 6),
        (96, 48),
        (144, 36),
        (2, 2),
        (24, 12),
        (6, 3),
        (29, 13),
        (42, 20),
        (1, 1),
        (7, 7),
        (360, 84),
        (16200, 882),
    ],
)
def test_an_expression_is_right_at_every_point_and_within_a_product(size: Dim) -> None:
    text = sizes().text(size)
    for point in (0, 1):
        assert value(text, point) == size[point]
        assert value(f"3 * {text} * 2", point) == 6 * size[point]


def test_what_an_operator_computes_stands_in_brackets() -> None:
    made = sizes()
    made.define((7, 3), "(x.shape[2] - 4) // 4 + 1")
    assert value(f"2 * {made.text((7, 3))}", 0) == 14
    assert value(made.text((49, 9)), 0) == 49


def test_a_size_that_follows_from_nothing_is_declined() -> None:
    with pytest.raises(Declined, match="1009"):
        sizes().text((1009, 17))
