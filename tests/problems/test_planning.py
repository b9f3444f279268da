"""The rules of smaller sizes, as properties of the pure search."""

import math

from hypothesis import given
from hypothesis import strategies as st

from agent.problems.planning import (
    UNTOUCHED,
    Cost,
    Limits,
    Values,
    admissible,
    cost,
    lower_values,
    same_work,
    search,
)
from agent.records import Operation, TensorSpec, Trace

SIZES = st.sets(st.integers(1, 20_000), min_size=1, max_size=5)


def limits(elements: int, macs: int = 10**12) -> Limits:
    return Limits(max_elements=elements, max_macs=macs, seconds=60)


def volume(values: Values) -> Cost:
    return Cost(math.prod(values.values()), 0)


@given(st.integers(1, 10**6))
def test_lower_values_keep_the_remainder_and_stay_above_one(value: int) -> None:
    lower = lower_values(value)
    assert list(lower) == sorted(set(lower), reverse=True)
    assert all(2 <= one < value and one % 32 == value % 32 for one in lower)
    assert all(after >= before // 2 - 32 for before, after in zip((value, *lower), lower, strict=False))


@given(SIZES, st.data())
def test_a_search_obeys_every_rule(sizes: set[int], data: st.DataObject) -> None:
    init = frozenset(data.draw(st.sets(st.sampled_from(sorted(sizes)))))
    budget = data.draw(st.integers(1, 10**9))
    values = search(sizes, init, volume, limits(budget))
    assert values.keys() == sizes
    assert len(set(values.values())) == len(sizes)
    for real, used in values.items():
        assert used == real or (real > UNTOUCHED and 2 <= used < real and used % 32 == real % 32)
    for large in init:
        for small in init:
            if large > small > 1 and large % small == 0:
                assert values[large] % values[small] == 0
                assert values[large] // values[small] > 1
    if math.prod(sizes) <= budget:
        assert values == {size: size for size in sizes}


@given(SIZES, st.integers(1, 10**9))
def test_a_search_stops_only_within_the_budget_or_where_no_step_is_left(sizes: set[int], budget: int) -> None:
    values = search(sizes, frozenset(), volume, limits(budget))
    if volume(values).elements > budget:
        for size in (size for size in sizes if size > UNTOUCHED):
            steps = ({**values, size: lower} for lower in lower_values(values[size]))
            assert not any(admissible(step, frozenset()) for step in steps)


def test_group_norm_becomes_as_small_as_the_rules_allow() -> None:
    def elements(values: Values) -> Cost:
        return Cost(2 * values[112] * values[64] * values[512] ** 2, 0)

    values = search({112, 64, 8, 512}, frozenset({64, 8}), elements, limits(2_400_000))
    assert values == {112: 16, 64: 64, 8: 8, 512: 32}


def test_groups_follow_their_channels() -> None:
    def product(values: Values) -> Cost:
        return Cost(0, values[1024] * values[8192] ** 2)

    values = search({1024, 8192, 512}, frozenset({8192, 512}), product, limits(10**12, 60_000_000))
    assert values == {1024: 32, 8192: 1024, 512: 128}


def test_a_size_without_effect_and_one_that_does_not_run_stay() -> None:
    def judged(values: Values) -> Cost | None:
        return None if values[500] != 500 else Cost(values[4096] ** 2, 0)

    assert search({500, 1234, 4096}, frozenset(), judged, limits(100_000)) == {
        500: 500,
        1234: 1234,
        4096: 256,
    }


def test_a_reference_that_does_not_run_at_its_own_sizes_stays() -> None:
    assert search({64, 96}, frozenset(), lambda values: None, limits(1)) == {64: 64, 96: 96}


def test_without_time_nothing_changes() -> None:
    none_left = Limits(max_elements=1, max_macs=1, seconds=-1)
    assert search({4096}, frozenset(), volume, none_left) == {4096: 4096}


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape=shape, dtype="float32")


def reduction(real: TensorSpec, result: TensorSpec, **attributes: int | float | bool) -> Trace:
    operation = Operation(
        op="sum", overload="aten.sum.default", inputs=(real,), outputs=(result,), attributes=dict(attributes),
        flops=real.elements, bytes=4 * (real.elements + result.elements), takes_result_of=(None,),
    )  # fmt: skip
    return Trace(
        operations=(operation,), inputs=(real,), init_inputs=(), outputs=(result,), state=(),
        flops=operation.flops, min_bytes=operation.bytes,
    )  # fmt: skip


def test_traces_with_the_same_work_differ_in_sizes_alone() -> None:
    real = reduction(spec(64, 96, 512), spec(64, 96, 1), dim=2)
    assert same_work(real, real)
    assert same_work(real, reduction(spec(48, 80, 32), spec(48, 80, 1), dim=1))
    assert not same_work(real, reduction(spec(48, 48, 32), spec(48, 48, 1), dim=2)), "two sizes became equal"
    assert not same_work(real, reduction(spec(48, 80, 1), spec(48, 80, 1), dim=2)), "nothing left to reduce"
    assert not same_work(real, reduction(spec(48, 80, 32), spec(48, 80), dim=2)), "another rank"
    assert not same_work(real, reduction(spec(48, 80, 32), spec(48, 80, 1), dim=True)), (
        "another kind of value"
    )
    assert not same_work(real, reduction(spec(48, 80, 32), spec(48, 80, 1))), "another attribute"


def test_a_group_keeps_two_channels() -> None:
    real = reduction(spec(64, 96), spec(64, 96), C=96, group=32)
    assert not same_work(real, reduction(spec(48, 32), spec(48, 32), C=32, group=32))
    assert same_work(real, reduction(spec(48, 64), spec(48, 64), C=64, group=32))


def test_the_cost_is_that_of_the_largest_step() -> None:
    trace = reduction(spec(64, 96), spec(64, 1))
    assert cost(trace) == Cost(64 * 96 + 64, 0)
    product = trace.operations[0].model_copy(update={"flops": 2 * 64 * 96 * 128})
    assert cost(trace.model_copy(update={"operations": (product,)})).macs == 64 * 96 * 128
