"""Who answers where no endpoint is configured."""

from pathlib import Path

import pytest

from agent import problems
from agent.errors import EndpointError, EnvironmentFault
from agent.providers.catalogue import Catalogue
from agent.providers.composed import Composed, begun_with_composed, shipped, without_endpoint
from agent.records import Completion, Message, Problem, Prompt

REFERENCE = """import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.last = nn.Linear(features, 4)
    def forward(self, x):
        return {result}
def get_inputs():
    return [torch.randn(16, 8)]
def get_init_inputs():
    return [8]
"""


def problem(tmp_path: Path, result: str) -> Problem:
    path = tmp_path / "mine.py"
    path.write_text(REFERENCE.format(result=result))
    return problems.load(str(path))


def prompt(template: str) -> Prompt:
    return Prompt(template=template, messages=(Message(role="user", content="write"),))


def test_a_shipped_kernel_goes_first() -> None:
    assert isinstance(without_endpoint(problems.load("level1/softmax")), Catalogue)


@pytest.mark.parametrize(("shape", "is_shipped"), [("64, 8", True), ("4, 64, 1024, 8", False)])
def test_a_norm_of_few_long_rows_is_composed(tmp_path: Path, shape: str, is_shipped: bool) -> None:
    sizes = [int(size) for size in shape.split(", ")[1:]]
    text = REFERENCE.replace("nn.Linear(features, 4)", "nn.LayerNorm(features)").replace("[8]", f"[{sizes}]")
    path = tmp_path / "mine.py"
    path.write_text(text.format(result="self.last(x)").replace("torch.randn(16, 8)", f"torch.randn({shape})"))
    assert (shipped(problems.load(str(path))) is not None) == is_shipped


def test_what_no_shipped_kernel_matches_is_composed_once(tmp_path: Path) -> None:
    provider = without_endpoint(problem(tmp_path, "torch.relu(self.last(x))"))
    assert isinstance(provider, Composed)
    assert "class ModelNew" in provider.complete(prompt("generate")).text
    with pytest.raises(EndpointError, match="nothing better"):
        provider.complete(prompt("optimise"))


def test_what_cannot_be_composed_names_the_operator_and_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"mine: numbers of complex64 .* at line 8: .*OPENAI_API_KEY"):
        without_endpoint(problem(tmp_path, "torch.fft.fft(self.last(x)).abs()"))


class Model:
    name = "openai_compat"

    def complete(self, prompt: Prompt) -> Completion:
        return Completion(provider=self.name, model="m", text="asked", finish_reason="stop")


def test_a_model_goes_on_from_the_composed_kernel(tmp_path: Path) -> None:
    provider = begun_with_composed(problem(tmp_path, "torch.relu(self.last(x))"), Model(), pytest.fail)
    first, second = (provider.complete(prompt("generate")) for _ in range(2))
    assert provider.name == "openai_compat"
    assert (first.provider, first.model) == ("compose", None)
    assert "class ModelNew" in first.text
    assert second.text == "asked"


def test_where_nothing_is_composed_the_model_is_asked_at_once(tmp_path: Path) -> None:
    warnings: list[str] = []
    provider = begun_with_composed(
        problem(tmp_path, "torch.fft.fft(self.last(x)).abs()"), Model(), warnings.append
    )
    assert provider.complete(prompt("generate")).text == "asked"
    assert "complex64" in warnings[0]
