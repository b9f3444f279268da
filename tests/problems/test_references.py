"""The shipped references: what tracing says of each, operator by operator."""

import pytest

from agent import problems
from agent.problems import finding, tracer
from agent.records import Operation, TensorSpec, Trace


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    return {name: tracer.trace(finding.source(problems.path(name))) for name in problems.names()}


def shapes(specs: tuple[TensorSpec, ...]) -> list[tuple[int, ...]]:
    return [spec.shape for spec in specs]


def table(trace: Trace) -> list[str]:
    return [operation.op for operation in trace.operations]


def test_group_norm(traces: dict[str, Trace]) -> None:
    trace = traces["level1/group_norm"]
    x = (112, 64, 512, 512)
    assert trace.operations == (
        Operation(
            op="native_group_norm",
            overload="aten.native_group_norm.default",
            inputs=(
                TensorSpec(shape=x, dtype="float32"),
                TensorSpec(shape=(64,), dtype="float32", name="gn.weight"),
                TensorSpec(shape=(64,), dtype="float32", name="gn.bias"),
            ),
            outputs=tuple(TensorSpec(shape=s, dtype="float32") for s in (x, (112, 8), (112, 8))),
            attributes={"N": 112, "C": 64, "HxW": 512 * 512, "group": 8, "eps": 1e-5},
            flops=112 * 64 * 512 * 512 + 128,
            bytes=4 * (2 * 112 * 64 * 512 * 512 + 128 + 2 * 112 * 8),
            takes_result_of=(None, None, None),
        ),
    )
    assert trace.inputs == (TensorSpec(shape=x, dtype="float32"),)
    assert trace.init_inputs == (64, 8)
    assert [spec.name for spec in trace.state] == ["gn.weight", "gn.bias"]
    assert shapes(trace.outputs) == [x]
    assert trace.min_bytes == 4 * (2 * 112 * 64 * 512 * 512 + 128)


def test_layer_norm(traces: dict[str, Trace]) -> None:
    trace = traces["level1/layer_norm"]
    assert table(trace) == ["native_layer_norm"]
    assert trace.operations[0].attributes == {"normalized_shape": [4096], "eps": 1e-5}
    assert [spec.name for spec in trace.operations[0].inputs] == [None, "ln.weight", "ln.bias"]
    assert trace.min_bytes == 4 * (2 * 16 * 2048 * 4096 + 2 * 4096)


def test_rms_norm(traces: dict[str, Trace]) -> None:
    trace = traces["level1/rms_norm"]
    assert table(trace) == ["pow", "mean", "add", "rsqrt", "mul", "mul"]
    power, mean, add, _, scaled, weighted = trace.operations
    assert power.attributes == {"exponent": 2}
    assert mean.attributes == {"dim": [-1], "keepdim": True, "dtype": None}
    assert add.attributes == {"other": 1e-6, "alpha": 1}
    assert scaled.broadcast == "(8, 2048, 4096) * (8, 2048, 1) -> (8, 2048, 4096)"
    assert scaled.takes_result_of == (None, 3)
    assert weighted.takes_result_of == (4, None)
    assert weighted.inputs[1].name == "weight"
    assert trace.min_bytes == 4 * (2 * 8 * 2048 * 4096 + 4096)


def test_rowwise_and_elementwise(traces: dict[str, Trace]) -> None:
    softmax, logsumexp, gelu = (traces[f"level1/{name}"] for name in ("softmax", "logsumexp", "gelu"))
    assert table(softmax) == ["_softmax"]
    assert softmax.operations[0].attributes == {"dim": 1, "half_to_float": False}
    assert softmax.min_bytes == 4 * 2 * 4096 * 16384
    assert table(logsumexp) == ["logsumexp"]
    assert logsumexp.operations[0].attributes == {"dim": [1], "keepdim": False}
    assert shapes(logsumexp.outputs) == [(4096,)]
    assert logsumexp.min_bytes == 4 * (4096 * 32000 + 4096)
    assert table(gelu) == ["gelu"]
    assert gelu.operations[0].attributes == {"approximate": "none"}
    assert gelu.flops == 8192 * 11008


def test_matmul(traces: dict[str, Trace]) -> None:
    trace = traces["level1/matmul"]
    assert table(trace) == ["mm"]
    assert trace.flops == 2 * 4096 * 2048 * 3072
    assert trace.min_bytes == 4 * (4096 * 2048 + 2048 * 3072 + 4096 * 3072)


def test_linear_group_norm_min_bias(traces: dict[str, Trace]) -> None:
    trace = traces["level2/linear_group_norm_min_bias"]
    assert table(trace) == ["addmm", "native_group_norm", "min", "add"]
    linear, norm, smallest, biased = trace.operations
    assert [spec.name for spec in linear.inputs] == ["linear.bias", None, "linear.weight"]
    assert linear.flops == 2 * 1024 * 8192 * 8192
    assert linear.broadcast == "(8192,) -> (1024, 8192)"
    assert norm.attributes == {"N": 1024, "C": 8192, "HxW": 1, "group": 512, "eps": 1e-5}
    assert smallest.attributes == {"dim": 1, "keepdim": True}
    assert biased.broadcast == "(1024, 1) + (1, 8192, 1, 1) -> (1, 8192, 1024, 1)"
    assert [op.takes_result_of for op in trace.operations[1:]] == [(0, None, None), (1,), (2, None)]
    assert shapes(trace.outputs) == [(1, 8192, 1024, 1)]
    assert trace.init_inputs == (8192, 8192, 512, [1, 8192, 1, 1])
    assert trace.min_bytes == 4 * (1024 * 8192 + 8192 * 8192 + 4 * 8192 + 8192 * 1024)


def test_conv_group_norm_tanh_hardswish_residual_logsumexp(traces: dict[str, Trace]) -> None:
    trace = traces["level2/conv_group_norm_tanh_hardswish_residual_logsumexp"]
    assert table(trace) == ["convolution", "native_group_norm", "tanh", "hardswish", "add", "logsumexp"]
    convolution, norm, _, _, residual, reduced = trace.operations
    assert convolution.attributes == {
        "stride": [1, 1],
        "padding": [0, 0],
        "dilation": [1, 1],
        "transposed": False,
        "output_padding": [0, 0],
        "groups": 1,
    }
    assert convolution.flops == 2 * (128 * 64 * 126 * 126) * (8 * 3 * 3)
    assert norm.attributes == {"N": 128, "C": 64, "HxW": 126 * 126, "group": 16, "eps": 1e-5}
    assert residual.takes_result_of == (0, 3)
    assert residual.broadcast is None
    assert reduced.attributes == {"dim": [1], "keepdim": True}
    assert shapes(trace.outputs) == [(128, 1, 126, 126)]
    assert trace.min_bytes == 4 * (128 * 8 * 128 * 128 + 64 * 8 * 9 + 3 * 64 + 128 * 126 * 126)


def test_a_trace_survives_json(traces: dict[str, Trace]) -> None:
    for trace in traces.values():
        assert Trace.model_validate_json(trace.model_dump_json()) == trace
