"""When two traces do the same work, and when sizes have lost something that matters."""

from collections.abc import Sequence

from pydantic import JsonValue

from agent.problems.form import same_operators, same_work
from agent.records import Operation, TensorSpec, Trace


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape=shape, dtype="float32")


def trace(operations: Sequence[Operation]) -> Trace:
    return Trace(
        operations=tuple(operations), inputs=operations[0].inputs, init_inputs=(),
        outputs=operations[-1].outputs, state=(), flops=sum(op.flops for op in operations),
        min_bytes=sum(op.bytes for op in operations),
    )  # fmt: skip


def operation(
    name: str, operands: Sequence[TensorSpec], result: TensorSpec, **attributes: JsonValue
) -> Operation:
    return Operation(
        op=name, overload=f"aten.{name}.default", inputs=tuple(operands), outputs=(result,),
        attributes=attributes, flops=sum(o.elements for o in operands),
        bytes=4 * sum(o.elements for o in (*operands, result)), takes_result_of=(None,) * len(operands),
    )  # fmt: skip


def reduction(real: TensorSpec, result: TensorSpec, **attributes: JsonValue) -> Trace:
    return trace([operation("sum", [real], result, **attributes)])


def test_traces_with_the_same_work_differ_in_sizes_alone() -> None:
    real = reduction(spec(64, 96, 512), spec(64, 96, 1), dim=2)
    assert same_work(real, real)
    assert same_work(real, reduction(spec(48, 80, 32), spec(48, 80, 1), dim=1))
    equal = reduction(spec(48, 48, 32), spec(48, 48, 1), dim=2)
    assert not same_work(real, equal), "two sizes became equal"
    assert same_work(real, equal, extents=False)
    assert not same_work(real, reduction(spec(48, 80, 1), spec(48, 80, 1), dim=2)), "nothing left to reduce"
    for other in (
        reduction(spec(48, 80, 32), spec(48, 80), dim=2),
        reduction(spec(48, 80, 32), spec(48, 80, 1), dim=True),
        reduction(spec(48, 80, 32), spec(48, 80, 1)),
        trace([*real.operations, *real.operations]),
    ):
        assert not same_work(real, other, rests=False, extents=False)


def test_operators_are_the_same_whatever_the_sizes() -> None:
    real = reduction(spec(64, 96, 512), spec(64, 96, 1), dim=2)
    assert same_operators(real, reduction(spec(2, 2, 1), spec(2, 2, 1), dim=2))
    assert not same_operators(real, reduction(spec(2, 1), spec(2, 1), dim=2)), "another rank"


def test_a_group_keeps_two_channels() -> None:
    real = reduction(spec(64, 96), spec(64, 96), C=96, group=32)
    assert not same_work(real, reduction(spec(48, 32), spec(48, 32), C=32, group=32))
    assert same_work(real, reduction(spec(48, 64), spec(48, 64), C=64, group=32))


def test_of_each_operator_one_call_keeps_different_dimensions_different() -> None:
    def network(first: tuple[int, int], second: tuple[int, int]) -> Trace:
        return trace([operation("tanh", [spec(*shape)], spec(*shape)) for shape in (first, second)])

    real = network((10, 224), (10, 56))
    assert same_work(real, network((3, 32), (3, 8)))
    assert same_work(real, network((8, 32), (3, 8))), "the other call still tells"
    assert not same_work(real, network((8, 32), (8, 8))), "the output is square"
    assert not same_work(real, network((3, 32), (3, 1))), "nothing is 1 that was not"


def windowed(extent: int, stride: int, dilation: int = 1) -> Trace:
    """A window of 3 with a padding of 1 along the last dimension."""
    after = (extent + 2 - 2 * dilation - 1) // stride + 1
    given: dict[str, JsonValue] = {
        "kernel_size": [3],
        "stride": [stride],
        "padding": [1],
        "dilation": [dilation],
    }
    return trace([operation("max_pool1d", [spec(2, extent)], spec(2, after), **given)])


def test_a_window_that_left_elements_over_still_does() -> None:
    assert same_work(windowed(224, 2), windowed(32, 2)), "one is left over"
    assert not same_work(windowed(224, 2), windowed(33, 2)), "none is"
    assert same_work(windowed(224, 2), windowed(33, 2), rests=False)
    assert same_work(windowed(224, 1), windowed(33, 1)), "a step of one never leaves any"
    assert not same_work(windowed(224, 3, dilation=2), windowed(33, 3, dilation=2))
    assert same_work(windowed(224, 3, dilation=2), windowed(35, 3, dilation=2))


def convolution(extent: int) -> Trace:
    after = (extent - 4) // 4 + 1
    given: dict[str, JsonValue] = {"stride": [4], "padding": [0], "dilation": [1], "transposed": False}
    return trace([operation("convolution", [spec(2, 3, extent), spec(8, 3, 4)], spec(2, 8, after), **given)])


def test_the_window_of_a_convolution_is_its_weight() -> None:
    assert same_work(convolution(64), convolution(20))
    assert not same_work(convolution(64), convolution(22))
    assert same_work(convolution(66), convolution(21))
