"""Which of ModelNew's tensors may hold which parameter of the reference."""

from typing import Any

import pytest

from agent.harness.truth import parameter_names
from agent.harness.truth.parameter_names import Held, NoFit


def held(*names: str, shape: tuple[int, ...] = (4,), parameter: bool = True) -> list[Held]:
    return [Held(name, shape, "torch.float32", parameter) for name in names]


def test_one_way_where_the_shapes_allow_one() -> None:
    reference = [*held("conv.weight", shape=(4, 3)), *held("conv.bias")]
    own = [*held("b"), *held("w", shape=(4, 3))]
    assert parameter_names.assignments(reference, own) == [{"conv.weight": "w", "conv.bias": "b"}]


def test_a_name_of_both_stands_for_itself() -> None:
    assert parameter_names.assignments(held("weight", "gn.bias"), held("beta", "weight")) == [
        {"gn.bias": "beta"}
    ]


def test_ways_come_by_the_roles_that_names_suggest_and_then_by_order() -> None:
    ways = parameter_names.assignments(held("gn.weight", "gn.bias"), held("beta", "gamma"))
    assert ways == [
        {"gn.weight": "gamma", "gn.bias": "beta"}, {"gn.weight": "beta", "gn.bias": "gamma"},
    ]  # fmt: skip
    assert parameter_names.assignments(held("p", "q"), held("a", "b"))[0] == {"p": "a", "q": "b"}


def test_buffers_go_to_buffers_where_that_comes_out() -> None:
    reference = [*held("weight"), *held("running_var", parameter=False)]
    own = [*held("v", parameter=False), *held("g")]
    assert parameter_names.assignments(reference, own) == [{"weight": "g", "running_var": "v"}]
    mixed = parameter_names.assignments(reference, held("a", "b"))
    assert len(mixed) == 2


def test_the_ways_are_bounded_and_different() -> None:
    many = [f"layer{number}.weight" for number in range(12)]
    ways = parameter_names.assignments(held(*many), held(*(f"w{number}" for number in range(12))))
    assert len(ways) == parameter_names.MOST
    assert ways[0] == {f"layer{number}.weight": f"w{number}" for number in range(12)}
    assert len({tuple(sorted(way.items())) for way in ways}) == parameter_names.MOST
    assert all(len(set(way.values())) == 12 for way in ways)


@pytest.mark.parametrize(
    ("reference", "own", "words"),
    [
        (held("gn.weight"), held("gamma", shape=(4, 1, 1)), r"`gamma` of ModelNew .* in another shape"),
        (held("gn.weight", "gn.bias"), held("gamma"), "nothing in ModelNew has .* `gn.bias`"),
        (held("gn.weight"), held("gamma", "extra"), "holds `extra` besides"),
        (held("weight"), [*held("weight", shape=(8,)), *held("g")], "`weight` has another shape or dtype"),
        (held("weight"), [Held("g", (4,), "torch.float64", True)], "nothing in ModelNew"),
    ],
)  # fmt: skip
def test_what_fits_nowhere_is_named(reference: list[Held], own: list[Held], words: str) -> None:
    with pytest.raises(NoFit, match=words):
        parameter_names.assignments(reference, own)


@pytest.mark.parametrize(
    "claims",
    [
        None, {}, [["a", [1], "torch.float32"]], [[1, [1], "x", True]], [["a", [-1], "x", True]],
        [["a", [True], "x", True]], [["a", [1], "x", True], ["a", [2], "x", True]], 
        [["a" * 301, [1], "x", True]],
        [["a", [1] * 17, "x", True]], [["a", [1], "x", True]] * 5000,
    ],
)  # fmt: skip
def test_a_claim_that_is_none_is_refused(claims: Any) -> None:
    assert parameter_names.claimed(claims) is None


def test_a_claim_is_read() -> None:
    assert parameter_names.claimed([["a", [2, 3], "torch.float32", False]]) == [
        Held("a", (2, 3), "torch.float32", False)
    ]
