"""The cards against torch itself: their names, and the definitions that answers break most often."""

from pathlib import Path

import pytest
import torch
from torch import nn

from agent import resources
from agent.problems import tracer

FOLDER = resources.folder("prompts") / "partials" / "ops"
REFERENCES = sorted(resources.folder("references").glob("level*/*.py"))
CARDS = sorted(path.name.removesuffix(".jinja2") for path in FOLDER.glob("*.jinja2"))


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_named_after_an_operator_and_begins_with_it(name: str) -> None:
    assert hasattr(torch.ops.aten, name)
    assert (FOLDER / f"{name}.jinja2").read_text(encoding="utf-8").startswith(f"**{name}**(")


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.stem)
def test_every_operator_of_a_shipped_reference_has_a_card(path: Path) -> None:
    trace = tracer.trace(path.read_text(encoding="utf-8"))
    assert {operation.op.rstrip("_") for operation in trace.operations} <= set(CARDS)


def test_group_norm_is_as_its_card_says() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 12, 5, 7, generator=generator, dtype=torch.float64) + 2
    norm = nn.GroupNorm(4, 12, eps=1e-3, dtype=torch.float64)
    nn.init.normal_(norm.weight, generator=generator)
    nn.init.normal_(norm.bias, generator=generator)
    groups = x.reshape(3, 4, -1)
    mean = groups.mean(2, keepdim=True)
    var = ((groups - mean) ** 2).mean(2, keepdim=True)
    normal = ((groups - mean) / (var + 1e-3).sqrt()).reshape(x.shape)
    expected = normal * norm.weight[None, :, None, None] + norm.bias[None, :, None, None]
    torch.testing.assert_close(norm(x), expected)


def test_broadcasting_is_as_its_text_says() -> None:
    a, c = torch.randn(4, 1), torch.randn(1, 6, 1, 1)
    result = a + c
    assert result.shape == (1, 6, 4, 1)
    assert result[0, 5, 3, 0] == a[3, 0] + c[0, 5, 0, 0]


def test_a_missing_eps_of_rms_norm_is_the_machine_epsilon() -> None:
    x = torch.full((4,), 1e-4)
    expected = x / (x.pow(2).mean() + torch.finfo(torch.float32).eps).sqrt()
    torch.testing.assert_close(nn.functional.rms_norm(x, (4,)), expected)


def test_average_pooling_counts_the_padding() -> None:
    pooled = nn.functional.avg_pool2d(torch.ones(1, 1, 4, 4), 2, padding=1)
    assert pooled[0, 0, 0, 0] == 0.25
