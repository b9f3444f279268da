"""Problems that cannot tell right from wrong are tightened or refused; sound ones pass."""

from pathlib import Path
from typing import Any

import pytest

from agent.errors import ProblemError
from agent.harness import admission, probing
from agent.harness.reference import Reference
from agent.problems import Shrunken
from agent.records import Admission, Problem, Trace

TEMPLATE = """
import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x):
        return {returned}


def get_inputs():
    return [{drawn}]


def get_init_inputs():
    return []
"""
RANDN = "torch.randn(24, 40)"


def probed(tmp_path: Path, returned: str, drawn: str = RANDN, made: str = "pass") -> dict[str, Any]:
    source = tmp_path / "reference.py"
    source.write_text(TEMPLATE.format(made=made, returned=returned, drawn=drawn))
    return probing.probe(Reference(source, "cpu"), 77)


@pytest.mark.parametrize(
    ("returned", "drawn", "made"),
    [
        ("torch.softmax(x, 1)", "torch.randn(8, 5000)", "pass"),
        ("F.gelu(x)", RANDN, "pass"),
        ("self.norm(x)", RANDN, "self.norm = nn.LayerNorm(40)"),
        ("self.norm(x)", "torch.rand(6, 8, 5, 5)", "self.norm = nn.BatchNorm2d(8)"),
        ("F.hardswish(self.norm(self.linear(x)))", RANDN,
         "self.linear, self.norm = nn.Linear(40, 16), nn.GroupNorm(4, 16)"),
        ("x / (x.norm(dim=1, keepdim=True) + 1e-8)", RANDN, "pass"),
        ("torch.argmax(x, 1)", RANDN, "pass"),
    ],
)  # fmt: skip
def test_a_sound_problem_kills_every_wrong_answer(
    tmp_path: Path, returned: str, drawn: str, made: str
) -> None:
    found = probed(tmp_path, returned, drawn, made)
    assert found["survivors"] == []
    assert found["killed"] == found["tried"] - len(found["equivalent"])
    assert found["tried"] >= 4


def test_inputs_that_are_never_large_are_tightened(tmp_path: Path) -> None:
    found = probed(tmp_path, "torch.relu(500 - x) * 2 + x", "torch.rand(24, 40)")
    assert found["survivors"] == []
    assert found["tightened"] == ["vast"]


def test_inputs_that_are_never_negative_need_no_tightening(tmp_path: Path) -> None:
    found = probed(tmp_path, "torch.relu(x) * 2 + x", "torch.rand(24, 40)")
    assert (found["survivors"], found["tightened"]) == ([], [])


def test_an_operator_that_changes_nothing_is_no_reason_to_refuse(tmp_path: Path) -> None:
    found = probed(tmp_path, "torch.relu(torch.exp(x)) + x")
    assert found["survivors"] == []
    assert [name.partition(" ")[0] for name in found["equivalent"]] == ["relu"]


@pytest.mark.parametrize(
    ("returned", "passing"),
    [
        ("torch.softmax(x, 1).sum(1)", "the mean everywhere"),
        ("torch.softmax(x, 1).sum(1) * 3", "the answer to other inputs"),
        ("x - x", "zeros"),
        ("x.clone()", "input 0 copied"),
    ],
)
def test_an_output_that_says_nothing_is_refused(tmp_path: Path, returned: str, passing: str) -> None:
    assert passing in probed(tmp_path, returned)["survivors"]


def problem(tmp_path: Path, returned: str) -> tuple[Problem, Shrunken]:
    source = TEMPLATE.format(made="pass", returned=returned, drawn=RANDN)
    trace = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=1, min_bytes=1)
    shrunken = Shrunken(source=source, sizes={}, trace=trace, full=True, fits=True, hard=())
    return Problem(name="probed", source=source, trace=trace), shrunken


def test_the_result_is_kept_and_a_refusal_names_what_passes(tmp_path: Path) -> None:
    asked, shrunken = problem(tmp_path, "torch.softmax(x, 1).sum(1)")
    found = admission.probed(asked, lambda: shrunken, tmp_path)
    assert found.survivors

    def fail() -> Shrunken:
        raise AssertionError("probed again")

    assert admission.probed(asked, fail, tmp_path) == found
    with pytest.raises(
        ProblemError, match=r"wrong answers would be verified \(.*mean everywhere.*--admit-any"
    ):
        admission.check(asked, found, anyway=False)
    assert admission.check(asked, found, anyway=True).anyway


def test_equivalent_mutants_do_not_count() -> None:
    found = Admission(tried=10, killed=8, equivalent=("a", "b"))
    assert found.kill_rate == 1.0
    assert Admission(note="not probed").kill_rate is None
