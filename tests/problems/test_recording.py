"""How operators are recorded: views, parameters, optional tensors, in-place writes, dtypes, costs."""

import textwrap

import pytest
import torch

from agent.problems import tracer
from agent.problems.tracer import ReferenceFault
from agent.records import TensorSpec, Trace


def reference(forward: str, init: str = "pass", inputs: str = "torch.randn(64, 96)") -> str:
    """A reference whose forward takes `x` and, in `more`, what other inputs there are."""
    return (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        + textwrap.indent(init, " " * 8)
        + "\n\n    def forward(self, x, *more):\n"
        + textwrap.indent(forward, " " * 8)
        + f"\n\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


def traced(forward: str, init: str = "pass", inputs: str = "torch.randn(64, 96)") -> Trace:
    return tracer.trace(reference(forward, init, inputs))


def test_views_of_parameters_are_dropped_and_of_activations_kept() -> None:
    trace = traced(
        "return (x.transpose(0, 1) @ self.w.t()[:, :32]).reshape(-1) * self.s.view(1)",
        "self.w = nn.Parameter(torch.ones(48, 64))\nself.s = nn.Parameter(torch.ones(()))",
    )
    assert [op.op for op in trace.operations] == ["transpose", "mm", "view", "mul"]
    transpose, product, _, scaled = trace.operations
    assert (transpose.flops, transpose.bytes) == (0, 0)
    assert product.inputs[1] == TensorSpec(shape=(64, 32), dtype="float32", name="w")
    assert product.takes_result_of == (0, None)
    assert scaled.broadcast == "(3072,) * (1,) -> (3072,)"


def test_views_that_change_nothing_are_dropped() -> None:
    trace = traced("return torch.tanh(x.detach().view(64, 96).expand(64, 96))")
    assert [(op.op, op.takes_result_of) for op in trace.operations] == [("tanh", (None,))]


def test_an_absent_affine_step_shows() -> None:
    trace = traced("return self.n(x)", "self.n = nn.GroupNorm(8, 96, affine=False)")
    (norm,) = trace.operations
    assert norm.attributes["weight"] is None
    assert norm.attributes["bias"] is None
    assert len(norm.inputs) == 1


def test_biased_and_unbiased_variance_differ() -> None:
    trace = traced("return x.var(1) + x.var(1, unbiased=False)")
    assert [op.attributes.get("correction") for op in trace.operations[:2]] == [1, 0]


def test_modules_run_in_evaluation_mode() -> None:
    trace = traced("return self.d(self.n(x))", "self.n = nn.BatchNorm1d(96)\nself.d = nn.Dropout(0.5)")
    (norm,) = trace.operations
    assert norm.attributes == {"training": False, "momentum": 0.1, "eps": 1e-5}
    assert [spec.name for spec in norm.inputs[1:]] == [
        "n.weight",
        "n.bias",
        "n.running_mean",
        "n.running_var",
    ]
    assert trace.min_bytes == 4 * (2 * 64 * 96 + 4 * 96), "num_batches_tracked is not read"


def test_a_write_through_a_view_is_where_later_readers_get_their_values() -> None:
    trace = traced("y = x * 2\ny[:, 0] = 0\nreturn y + 1")
    assert [op.op for op in trace.operations] == ["mul", "select", "fill_", "add"]
    assert trace.operations[3].takes_result_of == (2,)


def test_fresh_tensors_that_nobody_reads_are_dropped() -> None:
    trace = traced("torch.empty(7)\nreturn x + torch.ones(96)")
    assert [(op.op, op.takes_result_of) for op in trace.operations] == [("ones", ()), ("add", (None, 0))]


def test_infinite_attributes_survive_json() -> None:
    trace = traced("return x.masked_fill(x > 0, float('-inf'))")
    assert trace.operations[1].attributes == {"value": "-inf"}
    assert Trace.model_validate_json(trace.model_dump_json()) == trace


def test_a_lookup_reads_the_rows_it_returns() -> None:
    trace = traced("return self.e(x)", "self.e = nn.Embedding(50_000, 96)", "torch.randint(0, 9, (64,))")
    assert trace.operations[0].flops == 0
    assert trace.min_bytes == 64 * 8 + 2 * 64 * 96 * 4


def test_an_expanded_operand_counts_once() -> None:
    trace = traced("return x.sum(0).expand(64, 96) + x")
    assert trace.operations[-1].bytes == 4 * (96 + 2 * 64 * 96)


def test_converted_modules_and_half_precision() -> None:
    trace = traced("return self.l(x)", "self.l = nn.Linear(96, 32).half()", "torch.randn(64, 96).half()")
    assert [spec.dtype for spec in trace.state] == ["float16", "float16"]
    assert trace.min_bytes == 2 * (64 * 96 + 96 * 32 + 32 + 64 * 32)


@pytest.mark.parametrize(
    ("forward", "init", "inputs", "flops"),
    [
        (
            "return F.scaled_dot_product_attention(x, x, x)",
            "pass",
            "torch.randn(2, 4, 96, 64)",
            4 * 8 * 96 * 96 * 64,
        ),
        (
            "return self.r(x)[0]",
            "self.r = nn.LSTM(48, 32)",
            "torch.randn(10, 4, 48)",
            2 * 40 * 4 * 32 * (48 + 32),
        ),
        (
            "return self.c(x)",
            "self.c = nn.ConvTranspose2d(8, 16, 3, stride=2, bias=False)",
            "torch.randn(2, 8, 10, 10)",
            2 * (2 * 8 * 10 * 10) * (16 * 9),
        ),
    ],
    ids=["attention", "lstm", "transposed convolution"],
)
def test_products_are_counted_by_formula(forward: str, init: str, inputs: str, flops: int) -> None:
    trace = traced(forward, init, inputs)
    assert max(op.flops for op in trace.operations) == flops


def test_inputs_that_are_no_tensors_stand_as_values() -> None:
    trace = traced("return x * more[0]", inputs="torch.randn(4), 3, 'text', [torch.ones(2)]")
    assert trace.inputs[1:] == (3, "text", [{"shape": [2], "dtype": "float32"}])


def test_small_data_dependent_code_runs_on_real_tensors() -> None:
    trace = traced("return torch.tanh(x) if x.sum() > 1e9 else torch.sigmoid(x[x > -1e9])")
    assert trace.operations[-1].op == "sigmoid"
    assert trace.outputs[0].shape == (64 * 96,)


def test_large_data_dependent_code_is_refused_with_the_reason() -> None:
    with pytest.raises(
        ReferenceFault, match="depends on tensor values, and 1,024 MiB .*limit 64 MiB"
    ) as caught:
        traced("return x[x > 0]", inputs="torch.randn(2**28)")
    assert caught.value.line == 12


def test_huge_shapes_take_no_memory() -> None:
    trace = traced("return x.abs()", inputs="torch.randn(2**40)")
    assert trace.min_bytes == 2**43


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        (reference("raise KeyError('no')"), 12, "forward raised KeyError: 'no'"),
        (reference("return x @ x"), 12, "forward raised RuntimeError: "),
        (reference("return x", "self.missing"), 9, r"Model\(...\) raised AttributeError"),
        (reference("return x").replace("return []", "return [1]"), 7, r"Model\(...\) raised TypeError"),
        (
            reference("return x").replace("return []", "return 1"),
            19,
            "get_init_inputs returns int, not a list",
        ),
        (reference("return 1"), 11, "forward returns int, no tensor"),
        (reference("return x.to_sparse()"), 12, "forward uses a sparse tensor"),
        (
            reference("return x").replace("(nn.Module)", "").replace("super().__init__()", "pass"),
            7,
            "is no torch",
        ),
        (reference("return x") + "\nget_inputs = 3\n", None, "get_inputs is missing or cannot be called"),
        (reference("return x") + "raise SystemExit(2)\n", 21, "the file exits: SystemExit: 2"),
    ],
)
def test_faults_name_line_and_cause(source: str, line: int | None, message: str) -> None:
    with pytest.raises(ReferenceFault, match=message) as caught:
        tracer.trace(source)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "init",
    [
        "self.rates = [r.item() for r in torch.linspace(0, 0.5, 7)]",
        "steps = torch.tensor([1.0, 2.0])\nsteps[1:].mul_(4)\nself.rates = steps.tolist()",
        "mask = torch.arange(96) % 3 == 0\nself.rates = [float(len(mask.nonzero()))]",
    ],
)
def test_a_constructor_reads_what_depends_on_the_source_alone(init: str) -> None:
    """1 GiB of inputs: no tracing with real ones could follow."""
    trace = traced("return x * self.rates[-1]", init, "torch.randn(2**19, 512)")
    (product,) = trace.operations
    assert product.op == "mul"
    expected = {"linspace": 0.5, "tensor": 8.0, "nonzero": 32.0}
    assert product.attributes["other"] == next(value for name, value in expected.items() if name in init)


@pytest.mark.parametrize(
    "made",
    [
        "torch.rand(3)",
        "torch.empty(3)",
        "torch.zeros(3).uniform_()",
        "torch.zeros(3).add_(torch.rand(3))",
        "torch.arange(3.0) + torch.rand(3)",
        "torch.zeros(2**17)",
    ],
)
def test_a_constructor_cannot_read_what_is_random_uninitialised_or_large(made: str) -> None:
    init = f"values = {made}\nself.first = values[:2][0].item()"
    with pytest.raises(ReferenceFault, match=r"Model\(...\) raised DataDependentOutputException"):
        traced("return x * self.first", init)


def test_a_write_through_a_view_takes_the_value_of_the_whole() -> None:
    init = "values = torch.zeros(4)\nvalues[2:].normal_()\nself.first = values[0].item()"
    with pytest.raises(ReferenceFault, match="DataDependentOutputException"):
        traced("return x * self.first", init)


@pytest.mark.parametrize("layer", ["GRU", "LSTM", "RNN"])
def test_recurrent_layers_are_one_operation_whatever_their_length(layer: str) -> None:
    """As torch gives them with real tensors; 2 FLOPs per weight, step and sample."""
    for batch_first in (True, False):
        module = getattr(torch.nn, layer)
        real = module(6, 10, 2, batch_first=batch_first, bidirectional=True)
        weights = sum(p.numel() for p in real.parameters() if p.dim() == 2)
        output, _ = real(torch.randn(3, 7, 6))
        init = f"self.r = nn.{layer}(6, 10, 2, batch_first={batch_first}, bidirectional=True)"
        trace = traced("return self.r(x)[0]", init, "torch.randn(3, 7, 6)")
        (operation,) = [op for op in trace.operations if op.flops]
        assert operation.op == {"RNN": "rnn_tanh"}.get(layer, layer.lower())
        assert trace.outputs[0].shape == tuple(output.shape)
        assert operation.flops == 2 * weights * 3 * 7
