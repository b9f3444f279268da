"""What the catalogue leaves to a model, each with its reason."""

import re

import pytest
from providers.traced import Reference, problem

from agent.providers import catalogue
from agent.records import Operation, TensorSpec, Trace

X = "torch.rand(2, 5)"
DOUBLE = "torch.rand(2, 5, dtype=torch.float64)"

TRACES = {
    "two operators": (
        Reference("torch.relu(torch.softmax(x, 1))", X), r"runs 2 operators \(_softmax, relu\)"
    ),
    "a view before it": (
        Reference("torch.softmax(x.t(), 1)", "torch.rand(5, 5)"), r"runs 2 operators \(t, _softmax\)"
    ),
    "layer norm spelled out": (
        Reference("(x - x.mean(1, True)) * (x.var(1, keepdim=True) + 1e-5).rsqrt()", X),
        r"runs 6 operators \(mean, sub, var, add, rsqrt, mul\)",
    ),
    "rms norm over a dimension before the last": (
        Reference("x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-5)", "torch.rand(2, 5, 3)"),
        r"runs 5 operators \(pow, mean, add, rsqrt, mul\)",
    ),
    "a constant in the place of the square": (
        Reference("x * torch.rsqrt(torch.zeros(2).sum(0, keepdim=True) + 1.0).neg()", X),
        r"runs 6 operators \(zeros",
    ),
    "another power": (
        Reference("x * torch.rsqrt(x.pow(4).mean(1, keepdim=True) + 1e-5)", X), r"runs 5 operators",
    ),
    "logsumexp over two dimensions": (
        Reference("torch.logsumexp(x, (0, 1))", X), r"logsumexp is over 2 dimensions and the kernel reduces"
    ),
    "another operator": (
        Reference("torch.log_softmax(x, 1)", X), r"no kernel for the operator aten\._log_softmax\.default"
    ),
    "in place": (Reference("torch.ops.aten.gelu_(x)", X), r"no kernel for the operator aten\.gelu_\.default"),
    "half precision": (
        Reference("F.gelu(x)", "torch.rand(2, 5, dtype=torch.float16)"),
        r"the operands are float16 and the catalogue answers for float32",
    ),
    "double precision": (
        Reference("self.n(x)", DOUBLE, "-> self.n = nn.LayerNorm(5).double()"), r"the operands are float64"
    ),
    "more than one result": (Reference("(F.gelu(x), x)", X), r"returns something else"),
    "a parameter as the operand": (
        Reference("F.gelu(self.w)", X, "-> self.w = nn.Parameter(torch.rand(2, 5))"),
        r"first operand is not the reference's input",
    ),
    "a parameter nobody uses": (
        Reference("self.n(x)", X, "-> self.n, self.rest = nn.LayerNorm(5), nn.Linear(3, 3)"),
        r"the state_dict holds rest.weight, rest.bias, which layer_norm does not use",
    ),
    "a weight outside the state_dict": (
        Reference("F.layer_norm(x, (5,), self.w)", X, "-> self.w = torch.rand(5)"),
        r"an operand of shape \(5,\) is not in the state_dict",
    ),
    "a weight used in another shape": (
        Reference("F.layer_norm(x, (5,), self.w.view(5))", X, "-> self.w = nn.Parameter(torch.rand(5, 1))"),
        r"w has the shape \(5, 1\) and is used as \(5,\)",
    ),
}  # fmt: skip

TEXTS = {
    "a computed size": (
        Reference("self.n(x)", "torch.rand(2, 60)", ", c -> self.n = nn.GroupNorm(c // 5, c)", "60"),
        r"the size 12 is computed by the reference",
    ),
    "a constructor with *": (
        Reference("self.n(x)", X, ", *sizes -> self.n = nn.LayerNorm(sizes)", "5"),
        r"the constructor of Model takes \* or \*\* arguments",
    ),
    "a computed default": (
        Reference("self.n(x)", X, ", n, eps=1 / 8 -> self.n = nn.LayerNorm(n, eps)", "5"),
        r"a default of Model's constructor is computed: 1 / 8",
    ),
}

FILES = {
    "an inherited constructor": (
        "class Model(nn.LayerNorm): pass", "torch.rand(2, 5)", "5", r"Model inherits its constructor"
    ),
    "two inputs": (
        "class Model(nn.Module):\n    def forward(self, x, y): return F.gelu(x)", f"{X}, {X}", "",
        r"takes 2 inputs",
    ),
    "a forward with options": (
        "class Model(nn.Module):\n    def forward(self, x, scale=1.0): return F.gelu(x)", X, "",
        r"forward takes more than one argument",
    ),
    "a Model that is made, not written": (
        "Model = type('Model', (nn.GELU,), {})", X, "", r"no class Model at module level"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reference", "reason"), [*TRACES.values(), *TEXTS.values()], ids=[*TRACES, *TEXTS])
def test_what_does_not_match_is_declined_with_the_reason(reference: Reference, reason: str) -> None:
    found = catalogue.match(reference.problem)
    assert isinstance(found, catalogue.Declined)
    assert re.search(reason, found.reason)


@pytest.mark.parametrize(("model", "inputs", "init_inputs", "reason"), FILES.values(), ids=FILES.keys())
def test_an_unusual_file_is_declined_with_the_reason(
    model: str, inputs: str, init_inputs: str, reason: str
) -> None:
    makers = f"def get_inputs(): return [{inputs}]\ndef get_init_inputs(): return [{init_inputs}]\n"
    found = catalogue.match(problem(f"{model}\n{makers}"))
    assert isinstance(found, catalogue.Declined)
    assert re.search(reason, found.reason)


def test_the_op_table_alone_decides() -> None:
    x = TensorSpec(shape=(2, 4), dtype="float32")
    weight = TensorSpec(shape=(4,), dtype="float16", name="w")
    operation = Operation(
        op="native_layer_norm",
        overload="aten.native_layer_norm.default",
        inputs=(x, weight),
        outputs=(x,),
        attributes={"normalized_shape": [4], "bias": None, "eps": 1e-5},
        flops=0,
        bytes=0,
    )
    trace = Trace(
        operations=(operation,),
        inputs=(x,),
        init_inputs=(),
        outputs=(x,),
        state=(weight,),
        flops=0,
        min_bytes=0,
    )
    found = catalogue.match_trace(trace)
    assert isinstance(found, catalogue.Declined)
    assert "float16, float32" in found.reason
