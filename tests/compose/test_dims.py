"""Indices as digits: what a reshape makes of them, checked by counting through whole tensors."""

from collections.abc import Iterable
from itertools import product
from math import prod

import pytest

from agent.compose.dims import Digit, Dim, Index, Radix, Split, divided, is_one


def radix(loops: frozenset[str] = frozenset()) -> Radix:
    """One traced point; a size is spelled as its number."""

    def together(dims: Iterable[Dim]) -> Dim:
        return (prod(size for [size] in dims),)

    return Radix(1, (lambda dim: str(dim[0]),) * 2, together, lambda digit: digit.text in loops)


def index(shape: tuple[int, ...]) -> Index:
    return tuple(() if size == 1 else (Digit(f"i{axis}", (size,)),) for axis, size in enumerate(shape))


def values(made: Index, names: dict[str, int]) -> list[int]:
    """The C++ texts happen to be Python, but for the division of whole numbers."""
    numbers = [radix().number(digits) for digits in made]
    return [eval(text.replace("/", "//"), {}, names) for text in numbers]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((4, 6), (2, 12)), ((4, 6), (24,)), ((24,), (2, 3, 4)), ((2, 3, 4), (6, 4)), ((6, 4), (2, 3, 2, 2)),
        ((4, 9), (6, 6)), ((5, 1, 7), (1, 35)), ((3, 10), (6, 5)), ((2, 15), (5, 6)), ((1, 1), (1,)),
    ],
)  # fmt: skip
def test_a_reshape_leads_to_the_same_element(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    made = radix().regrouped(index(new), [(size,) for size in old])
    for number, place in enumerate(product(*map(range, new))):
        names = {f"i{axis}": at for axis, at in enumerate(place)}
        linear = 0
        for size, at in zip(old, values(made, names), strict=True):
            assert 0 <= at < size
            linear = linear * size + at
        assert linear == number


def test_a_loop_variable_is_divided_rather_than_its_value() -> None:
    with pytest.raises(Split) as raised:
        radix(frozenset({"i0", "i1"})).regrouped(index((4, 6)), [(8,), (3,)])
    assert (raised.value.name, raised.value.low) == ("i1", (3,))


def test_sizes_of_several_points() -> None:
    assert divided((12, 6), (4, 2)) == (3, 3)
    assert divided((12, 6), (4, 4)) is None
    assert is_one((1, 1))
    assert not is_one((1, 2))
