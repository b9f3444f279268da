"""A trace is remembered where nothing but the reference's text can change it."""

from pathlib import Path

import pytest

from agent import problems
from agent.api import tracing
from agent.problems import child
from agent.records import Trace

REFERENCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return []
"""
EMPTY = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every source that a tracer was started for."""
    sources: list[str] = []

    def trace(source: str, shown_as: str, time_limit_s: float) -> Trace:
        sources.append(source)
        return EMPTY

    monkeypatch.setattr(child, "trace", trace)
    return sources


def test_a_reference_is_traced_once_and_again_when_its_text_changes(
    traced: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "reference.py"
    file.write_text(REFERENCE)
    for _ in range(2):
        assert tracing.load(str(file), None, tmp_path / "cache").trace == EMPTY
    assert traced == [REFERENCE]
    file.write_text(REFERENCE.replace("(4, 8)", "(4, 9)"))
    tracing.load(str(file), None, tmp_path / "cache")
    assert len(traced) == 2


def test_what_may_be_otherwise_next_time_is_traced_each_time(traced: list[str], tmp_path: Path) -> None:
    file = tmp_path / "reference.py"
    file.write_text("import os\n" + REFERENCE)
    for _ in range(2):
        tracing.load(str(file), None, tmp_path / "cache")
    assert len(traced) == 2


@pytest.mark.parametrize(
    ("line", "alone"),
    [
        ("import math", True),
        ("from torch.nn import functional as F", True),
        ("model.eval()", True),
        ("import time", False),
        ("from . import sizes", False),
        ("from helpers import sizes", False),
        ("import torchvision.models", False),
        ("sizes = open('sizes.txt').read()", False),
        ("weights = torch.load('weights.pt')", False),
        ("rows = numpy.random.randint(9)", False),
    ],
)
def test_what_a_reference_depends_on(line: str, alone: bool) -> None:
    assert tracing.depends_on_its_text_alone(f"{line}\n{REFERENCE}") is alone


def test_every_shipped_reference_depends_on_its_text_alone() -> None:
    for name in problems.names():
        assert tracing.depends_on_its_text_alone(problems.path(name).read_text()), name
