"""The rules of smaller sizes, as properties of the pure search."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.problems.levels import LEVELS, ROUNDS, SMALL, Level, floor, lower_values
from agent.problems.planning import Cost, Limits, Search, Values, cost
from agent.problems.roles import Dimension, Role
from agent.records import Operation, TensorSpec, Trace

ROLES = [role for role in Role if role is not Role.DEFAULT]
NO_LIMIT = 10**15


@st.composite
def dimensions(draw: st.DrawFn) -> tuple[Dimension, ...]:
    pairs = draw(
        st.lists(
            st.tuples(st.integers(4, 20_000), st.sampled_from(ROLES)), min_size=1, max_size=5, unique=True
        )
    )
    return tuple(
        Dimension((f"size{n}",), value, role, draw(st.integers(1, 3)) if role is Role.SPACE else 0)
        for n, (value, role) in enumerate(pairs)
    )


def limits(elements: int, macs: int = NO_LIMIT) -> Limits:
    return Limits(max_elements=elements, max_macs=macs)


def volume(values: Values, level: Level) -> Cost:
    return Cost(math.prod(values), 0)


def found(
    elements: int, *sizes: tuple[int, Role] | tuple[int, Role, int], judged: object = volume
) -> tuple[int, ...] | None:
    """The sizes that a search within a number of elements comes to, None where there are none."""
    made = tuple(Dimension((str(n),), *size) for n, size in enumerate(sizes))
    assert callable(judged)
    search = Search(made, judged).run(limits(elements), LEVELS)
    return search.values if search else None


@pytest.mark.parametrize(
    ("real", "small", "most", "large"),
    [
        ((1 << 25,), (524_320,), 10_000_000, (8_388_608,)),
        ((131_072, 64), (16, 64), 10_000_000, (131_072, 64)),
        ((4_096, 393_216), (2, 1_056), 10_000_000, (24, 393_216)),
        ((64, 64), (32, 32), 512, None),
    ],
)
def test_large_sizes_come_near_the_real_ones(
    real: Values, small: Values, most: int, large: Values | None
) -> None:
    roles = (Role.BATCH, Role.REDUCED) if len(real) > 1 else (Role.FREE,)
    pairs = zip(real, roles, strict=True)
    sizes = tuple(Dimension((str(n),), value, role, 0) for n, (value, role) in enumerate(pairs))
    found = Search(sizes, volume).enlarged(small, limits(most), LEVELS[0])
    if large is None:
        assert found is None
        return
    assert found is not None
    assert math.prod(found) <= most
    assert all(used >= least for used, least in zip(found, small, strict=True))
    assert math.prod(found) >= math.prod(large) // 2


def test_sizes_in_a_ratio_keep_their_remainder_both() -> None:
    joined = Dimension(("image", "window"), 224, Role.DEFAULT, divided=("window",), step=32)
    assert joined.sizes(224) == {"image": 224, "window": 7}
    assert lower_values(joined, 224, Level(4, Role.DEFAULT)) == (96,)
    assert lower_values(joined, 224, Level(32, Role.DEFAULT)) == ()


@given(st.integers(4, 10**6), st.sampled_from(Role), st.integers(1, 3), st.sampled_from(LEVELS))
def test_lower_values_keep_the_remainder_and_their_least(
    value: int, role: Role, space: int, level: Level
) -> None:
    dimension = Dimension(("n",), value, role, space if role is Role.SPACE else 0)
    lower = lower_values(dimension, value, level)
    assert len(set(lower)) == len(lower)
    assert all(one < value for one in lower)
    if role is Role.BATCH:
        assert min(lower) == 2 + value % 2
    else:
        assert all(one >= floor(dimension, level) for one in lower)
        assert all(one % level.modulus == value % level.modulus for one in lower)
    if role >= Role.CONSTRUCTOR and value <= SMALL:
        assert lower == ()


@given(dimensions(), st.integers(1, 10**9))
def test_a_search_obeys_every_rule(made: tuple[Dimension, ...], budget: int) -> None:
    real = tuple(dimension.value for dimension in made)
    ended = Search(made, volume).run(limits(budget), LEVELS)
    if math.prod(real) <= budget:
        assert ended is not None
        assert ended.values == real
    if ended is None:
        return
    assert ended.cost.elements == math.prod(ended.values) <= budget
    pairs = list(zip(made, ended.values, strict=True))
    for dimension, used in pairs:
        assert 2 <= used <= dimension.value
        if dimension.role is not Role.BATCH:
            assert (dimension.value - used) % ended.level.modulus == 0
        if dimension.role > ended.level.last:
            assert used == dimension.value
        for other, also in pairs:
            same_role = dimension.role is other.role
            assert not (same_role and used == also and dimension.value != other.value)
            if dimension.role is other.role is Role.CONSTRUCTOR and dimension.value > other.value:
                assert dimension.value % other.value or (used % also == 0 and used // also > 1)


@given(dimensions(), st.integers(1, 10**9))
def test_the_same_sizes_are_found_again(made: tuple[Dimension, ...], budget: int) -> None:
    search = Search(made, volume)
    first = search.run(limits(budget), LEVELS)
    assert first == search.run(limits(budget), LEVELS) == Search(made, volume).run(limits(budget), LEVELS)


def test_a_batch_goes_before_what_is_reduced() -> None:
    assert found(1_200_000, (4096, Role.BATCH), (16384, Role.REDUCED)) == (64, 16384)
    assert found(1_200_000, (4097, Role.BATCH), (393_216, Role.REDUCED)) == (3, 393_216)
    assert found(100_000, (4096, Role.BATCH), (393_216, Role.REDUCED)) == (2, 49_248)


def test_what_is_free_goes_before_what_is_reduced_which_stays_above_a_block() -> None:
    sizes = (128, Role.BATCH), (4096, Role.REDUCED), (4095, Role.FREE)
    assert found(1_200_000, *sizes) == (2, 4096, 127)
    assert found(140_000, *sizes) == (2, 1088, 63)
    assert found(100_000, *sizes) == (2, 608, 63), "not above a block where that is not affordable"
    assert 1088 > ROUNDS > 608


def test_constructor_sizes_go_last_and_small_ones_stay() -> None:
    rows = 1024, Role.FREE
    assert found(1_200_000, rows, (8192, Role.CONSTRUCTOR)) == (128, 8192)
    assert found(100_000, rows, (8192, Role.CONSTRUCTOR)) == (32, 2144)
    assert found(20, (24, Role.CONSTRUCTOR)) is None


def test_groups_follow_their_channels() -> None:
    def product(values: Values, level: Level) -> Cost:
        return Cost(0, values[0] * values[1] ** 2)

    made = tuple(
        Dimension((str(n),), n, role)
        for n, role in ((1024, Role.FREE), (8192, Role.CONSTRUCTOR), (512, Role.CONSTRUCTOR))
    )
    ended = Search(made, product).run(limits(NO_LIMIT, 60_000_000), LEVELS)
    assert ended is not None
    assert ended.values == (32, 1024, 128)


@pytest.mark.parametrize(
    ("space", "real", "least"),
    [(1, 131_072, 1056), (1, 524_280, 1048), (2, 512, 32), (2, 510, 62), (3, 128, 32), (3, 24, 24)],
)
def test_space_under_a_window_goes_to_its_least_at_once(space: int, real: int, least: int) -> None:
    """More than a block along one dimension, a tile and more along two, half of one along three."""
    ended = found(128 * real - 1, (128, Role.BATCH), (real, Role.SPACE, space))
    assert ended == (2, least)


def test_the_remainder_is_kept_modulo_less_where_that_is_what_is_affordable() -> None:
    made = (Dimension(("height",), 224, Role.SPACE, 2), Dimension(("channels",), 64, Role.CONSTRUCTOR))

    def squared(values: Values, level: Level) -> Cost:
        return Cost(values[0] ** 2 * values[1], 0)

    search = Search(made, squared)
    for budget, values, modulus in [(70_000, (32, 64), 32), (20_000, (16, 64), 16), (10_000, (16, 32), 32)]:
        ended = search.run(limits(budget), LEVELS)
        assert ended is not None
        assert ended.values == values
        assert (ended.level.modulus == modulus) == (ended.level.last is Role.REDUCED) or modulus == 32


def test_a_value_that_does_not_run_is_passed_over() -> None:
    def odd(values: Values, level: Level) -> Cost | None:
        return volume(values, level) if values[0] not in (2, 2048, 1024, 512) else None

    assert found(600, (4096, Role.BATCH), judged=odd) == (256,)
    assert found(3, (4096, Role.BATCH), judged=odd) == (3,)
    assert found(10**9, (4096, Role.FREE), judged=lambda *_: None) is None


def test_proposals_are_counted() -> None:
    asked: list[Values] = []

    def endless(values: Values, level: Level) -> Cost | None:
        asked.append(values)
        return Cost(10**9, 0) if len(asked) == 1 else None

    made = tuple(Dimension((str(n),), 10**6 + n, Role.FREE) for n in range(60))
    judged: Callable[[Values, Level], Cost | None] = endless
    assert Search(made, judged).run(limits(10), LEVELS) is None
    assert 300 < len(asked) <= 420


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape=shape, dtype="float32")


def test_the_cost_is_that_of_the_largest_step() -> None:
    real, result = spec(64, 96), spec(64, 1)
    operation = Operation(
        op="sum", overload="aten.sum.default", inputs=(real,), outputs=(result,), attributes={},
        flops=real.elements, bytes=4 * (real.elements + result.elements), takes_result_of=(None,),
    )  # fmt: skip
    trace = Trace(
        operations=(operation,), inputs=(real,), init_inputs=(), outputs=(result,), state=(),
        flops=operation.flops, min_bytes=operation.bytes,
    )  # fmt: skip
    assert cost(trace) == Cost(64 * 96 + 64, 0)
    product = operation.model_copy(update={"flops": 2 * 64 * 96 * 128})
    assert cost(trace.model_copy(update={"operations": (product,)})).macs == 64 * 96 * 128
