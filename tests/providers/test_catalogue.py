"""What the catalogue matches, the `ModelNew` it writes, and the provider's manners."""

import ast
import re
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
import torch
from providers.traced import Reference, problem

from agent.errors import EndpointError, EnvironmentFault
from agent.kernels import sources
from agent.problems import tracer
from agent.providers import catalogue
from agent.providers.catalogue.matching import Kernel
from agent.records import Message, Problem, Prompt

REFERENCES = Path(__file__).resolve().parents[2] / "references" / "level1"
GELU = """
    class Model(nn.Module):
        def forward(self, x): return F.gelu(x)
    def get_inputs(): return [torch.rand(2, 5)]
    def get_init_inputs(): return []
"""


class Case(NamedTuple):
    reference: Reference
    init_inputs: tuple[Any, ...]
    state: dict[str, tuple[int, ...]]
    operands: tuple[object, ...]
    """What the kernel gets after x; a parameter stands by its name."""


CASES = {
    "group norm of another eps": Case(
        Reference(
            "self.norm(x)", "torch.rand(2, 48, 5)",
            ", groups, channels -> self.norm = nn.GroupNorm(groups, channels, eps=0.25)", "6, 48",
        ),
        (6, 48), {"norm.weight": (48,), "norm.bias": (48,)}, ("norm.weight", "norm.bias", 6, 0.25),
    ),
    "group norm without affine, eps an argument": Case(
        Reference(
            "F.group_norm(x, self.g, eps=self.e)", "torch.rand(2, 12, 2, 3, 4)",
            ", c, g, eps=1e-3 -> self.g, self.e = g, eps", "12, 3",
        ),
        (12, 3), {}, (None, None, 3, 1e-3),
    ),
    "group norm of rank 2, sizes stated": Case(
        Reference("self.n(x)", "torch.rand(3, 40)", "-> self.n = nn.GroupNorm(4, 40)"),
        (), {"n.weight": (40,), "n.bias": (40,)}, ("n.weight", "n.bias", 4, 1e-5),
    ),
    "group norm inside a Sequential": Case(
        Reference(
            "self.net(x)", "torch.rand(3, 40)", ", c -> self.net = nn.Sequential(nn.GroupNorm(2, c))", "40"
        ),
        (40,), {"net.0.weight": (40,), "net.0.bias": (40,)}, ("net.0.weight", "net.0.bias", 2, 1e-5),
    ),
    "layer norm over two dimensions, the shape a tuple": Case(
        Reference(
            "self.ln(x)", "torch.rand(2, 5, 6)", ", shape -> self.ln = nn.LayerNorm(shape, bias=False)",
            "(5, 6)",
        ),
        ((5, 6),), {"ln.weight": (5, 6)}, ("ln.weight", None, 2, 1e-5),
    ),
    "layer norm, sizes as single arguments": Case(
        Reference(
            "self.ln(x)", "torch.rand(2, 5, 6)", ", a, b -> self.ln = nn.LayerNorm((b, a), eps=1e-3)", "6, 5"
        ),
        (6, 5), {"ln.weight": (5, 6), "ln.bias": (5, 6)}, ("ln.weight", "ln.bias", 2, 1e-3),
    ),
    "layer norm, parameters called as they please": Case(
        Reference(
            "F.layer_norm(x, (9,), self.eps, self.weight)", "torch.rand(2, 9)",
            ", n, *, e=1e-5 -> self.weight, self.eps = (nn.Parameter(torch.rand(n)) for _ in range(2))", "9",
        ),
        (9,), {"eps": (9,), "weight": (9,)}, ("eps", "weight", 1, 1e-5),
    ),
    "layer norm, the size a constant of the module": Case(
        Reference("self.ln(x)", "torch.rand(2, WIDTH)", "-> self.ln = nn.LayerNorm(WIDTH)", top="WIDTH = 96"),
        (), {"ln.weight": (96,), "ln.bias": (96,)}, ("ln.weight", "ln.bias", 1, 1e-5),
    ),
    "softmax over an inner dimension": Case(
        Reference("x.softmax(self.dim)", "torch.rand(2, 5, 6)", ", dim=-2 -> self.dim = dim"), (), {}, (-2,)
    ),
    "softmax by a module": Case(
        Reference("self.s(x)", "torch.rand(2, 5)", "-> self.s = nn.Softmax(dim=0)"), (), {}, (0,)
    ),
    "rms norm by torch": Case(
        Reference(
            "torch.rms_norm(x, (9,), self.w, eps=0.25)", "torch.rand(2, 9)",
            ", n -> self.w = nn.Parameter(torch.rand(n))", "9",
        ),
        (9,), {"w": (9,)}, ("w", 1, 0.25),
    ),
    "rms norm spelled out, over two dimensions, without a weight": Case(
        Reference("x * torch.rsqrt((x * x).mean((-1, -2), keepdim=True) + self.e)", "torch.rand(2, 5, 6)",
            ", e -> self.e = e", "0.25"),
        (0.25,), {}, (None, 2, 0.25),
    ),
    "logsumexp that keeps its dimension": Case(
        Reference("x.logsumexp(self.dim, keepdim=True)", "torch.rand(2, 5, 6)", ", dim=-2 -> self.dim = dim"),
        (), {}, (-2, True),
    ),
    "gelu by tanh": Case(
        Reference("F.gelu(x, approximate=self.a)", "torch.rand(7)", ", kind -> self.a = kind", "'tanh'"),
        ("tanh",), {}, ("tanh",),
    ),
    "gelu by a module": Case(
        Reference("self.g(x)", "torch.rand(7)", "-> self.g = nn.GELU()"), (), {}, ("none",)
    ),
}  # fmt: skip


def matched(found: catalogue.Match | catalogue.Declined) -> catalogue.Match:
    assert isinstance(found, catalogue.Match), found
    return found


def written(match: catalogue.Match) -> tuple[type[torch.nn.Module], list[tuple[Any, ...]]]:
    """ModelNew of the answer over a kernel that only notes its operands, and those notes."""
    calls: list[tuple[Any, ...]] = []

    def kernel(*operands: Any) -> Any:
        calls.append(operands)
        return operands[0]

    _, _, text = match.source.partition("class ModelNew")
    scope: dict[str, Any] = {"torch": torch, "nn": torch.nn, match.operator.kernel: kernel}
    exec("class ModelNew" + text, scope)
    return scope["ModelNew"], calls


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_match_carries_state_settings_and_constructor(case: Case) -> None:
    model_new, calls = written(matched(catalogue.match(case.reference.problem)))
    model = model_new(*case.init_inputs)
    assert {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()} == case.state
    x = torch.rand(3)
    model(x)
    parameters = dict(model.named_parameters())
    ((first, *others),) = calls
    assert first is x
    for got, want in zip(others, case.operands, strict=True):
        assert got is parameters[want] if isinstance(want, str) and want in parameters else got == want


def test_sizes_follow_the_constructor_arguments() -> None:
    init = ", groups, channels -> self.norm = nn.GroupNorm(groups, channels)"
    match = matched(
        catalogue.match(Reference("self.norm(x)", "torch.rand(2, 480, 5)", init, "60, 480").problem)
    )
    model_new, calls = written(match)
    model = model_new(30, 240)
    model(torch.rand(1))
    assert model.state_dict()["norm.weight"].shape == (240,)
    assert calls[0][3] == 30
    assert not re.search(r"\b(60|480)\b", match.source)


def test_defaults_are_kept_and_name_no_constant_of_the_module() -> None:
    init = ", n, eps=EPS, *, note='a' -> self.ln = nn.LayerNorm(n, eps)"
    reference = Reference("self.ln(x)", "torch.rand(2, 9)", init, "9", top="EPS = 0.5")
    match = matched(catalogue.match(reference.problem))
    assert "def __init__(self, n: int, eps: float = 0.5, *, note: str = 'a') -> None:" in match.source
    model_new, calls = written(match)
    model_new(9, 0.125)(torch.rand(1))
    assert calls[0][-1] == 0.125


@pytest.mark.parametrize("name", get_args(Kernel))
def test_the_shipped_file_is_the_answer_to_the_shipped_reference(name: str) -> None:
    source = (REFERENCES / f"{name}.py").read_text(encoding="utf-8")
    shipped = sources.candidate(name)
    match = matched(catalogue.match(Problem(name="renamed", source=source, trace=tracer.trace(source))))
    assert match.source == shipped
    assert [node.name for node in ast.parse(shipped).body if isinstance(node, ast.ClassDef)] == ["ModelNew"]


def test_the_provider_answers_once() -> None:
    found = problem(GELU, "mine/gelu")
    ask = Prompt(template="generate", messages=(Message(role="user", content="Write a kernel."),))
    provider = catalogue.Catalogue(found)
    completion = provider.complete(ask)
    assert completion.provider == provider.name == "catalogue"
    assert completion.finish_reason == "stop"
    _, block, _ = re.split(r"^```(?:python)?\n", completion.text, flags=re.M)
    assert block == matched(catalogue.match(found)).source
    with pytest.raises(EndpointError, match="one kernel for mine/gelu and nothing better"):
        provider.complete(ask)


def test_a_resumed_run_gets_no_second_copy() -> None:
    repair = Prompt(template="repair", messages=(Message(role="user", content="It failed."),))
    with pytest.raises(EndpointError, match="nothing better"):
        catalogue.Catalogue(problem(GELU)).complete(repair)


def test_without_a_match_the_error_says_why_and_how_to_ask_a_model() -> None:
    made = Reference("torch.relu(x)", "torch.rand(2, 5)").problem
    with pytest.raises(
        EnvironmentFault, match=r"no kernel for anything: .*aten\.relu\.default.*OPENAI_API_KEY"
    ):
        catalogue.Catalogue(made)
