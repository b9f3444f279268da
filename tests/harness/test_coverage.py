"""Which kernels a verdict leaves out, from what the candidate's process says of its launches."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.harness.backends.emulator import EmulatorBackend
from agent.harness.trial import kernel_coverage
from agent.harness.trial.kernel_coverage import MAX_PLANS, Coverage, short
from agent.problems.tracer import ReferenceFault, trace
from agent.records import Problem, Trace
from agent.sandbox import Gone

SOURCE = """
import torch
import torch.nn as nn
rows = 4096
columns = 8192
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.rand(rows, columns)]
def get_init_inputs():
    return []
"""
PROBLEM = Problem(name="rows", source=SOURCE, trace=trace(SOURCE))


def trace_of(source: str) -> Trace | None:
    try:
        return trace(source)
    except ReferenceFault:
        return None


class Host:
    """A candidate's process that answers with `answer`."""

    def __init__(self, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._answer = answer

    def ask(self, command: dict[str, Any], limit_s: float, serve: Any = None) -> dict[str, Any]:
        return self._answer(command)


def asked(launches: Callable[[int, int], list[str]]) -> Host:
    """A process whose host code launches that at a number of rows and columns."""

    def answer(command: dict[str, Any]) -> dict[str, Any]:
        assert command["do"] == "real_shapes"
        assert command["host_only"]
        rows, columns = command["inputs"][0]["shape"]
        return {"notes": [], "kernels": [{"kernel": name} for name in launches(rows, columns)]}

    return Host(answer)


def looked(ran: tuple[str, ...], host: Host) -> Coverage:
    backend: Any = EmulatorBackend  # of which nothing is built here
    return kernel_coverage.looked(PROBLEM, "", ran, host, backend, trace_of)


def test_nothing_is_missing_where_the_draws_ran_it_all() -> None:
    found = looked(("a", "b"), asked(lambda rows, columns: ["b", "a"]))
    assert found == Coverage()


def test_sizes_are_found_for_a_kernel_of_one_width() -> None:
    ask = asked(lambda rows, columns: ["fast"] if columns == 8192 else ["plain"])
    found = looked(("plain",), ask)
    assert found.missing == ("fast",)
    assert [plan.sizes for plan in found.plans] == [{"rows": (4096, 2), "columns": (8192, 8192)}]


def test_a_kernel_that_only_the_real_sizes_launch_has_none() -> None:
    ask = asked(lambda rows, columns: ["fast"] if (rows, columns) == (4096, 8192) else ["plain"])
    found = looked(("plain",), ask)
    assert (found.missing, found.plans) == (("fast",), ())


def test_kernels_that_never_run_together_in_small_have_sizes_of_their_own() -> None:
    def launches(rows: int, columns: int) -> list[str]:
        wide = ["wide"] if columns == 8192 and (rows < 100 or rows == 4096) else []
        return [*wide, *(["tall"] if rows == 4096 and (columns < 100 or columns == 8192) else [])]

    found = looked((), asked(launches))
    assert found.missing == ("wide", "tall")
    used = [{name: used for name, (_, used) in plan.sizes.items()} for plan in found.plans]
    assert used == [{"rows": 2, "columns": 8192}, {"rows": 4096, "columns": 2}]
    assert len(found.plans) <= MAX_PLANS


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            {"error": {"type": "RuntimeError", "message": "expected another shape", "line": 3}},
            "another shape",
        ),
        ({"notes": ["forward reads values on the host (aten.item)"], "kernels": []}, "reads values"),
    ],
)
def test_a_call_that_cannot_be_followed_is_told(answer: dict[str, Any], words: str) -> None:
    found = looked(("plain",), Host(lambda command: answer))
    assert (found.missing, found.plans) == ((), ())
    [reason] = found.left_out
    assert reason.startswith("the kernels that the real shape launches: ")
    assert words in reason


def test_a_process_that_ends_is_asked_once() -> None:
    calls = []

    def ended(command: dict[str, Any]) -> dict[str, Any]:
        calls.append(command)
        raise Gone("ended", 1)

    found = looked((), Host(ended))
    assert len(calls) == 1
    assert len(found.left_out) == 1


@pytest.mark.parametrize(
    "claim", [None, 3, "k", [3, None, {"kernel": 4}, {"grid": [1]}], {"kernel": "k"}, [{"kernel": None}]]
)
def test_a_malformed_claim_counts_as_no_launch(claim: Any) -> None:
    assert kernel_coverage.kernels({"kernels": claim}) == ()


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("void scan(const float*, int) [with int TILES = 8]", "scan<8>"),
        ("void kw_unnamed::mix(T*, P) [with int N = 4; T = float]", "mix<4, float>"),
        ("void add(float*, int64_t)", "add"),
        ("kernel<T, N>", "kernel<T, N>"),
        ('void k"""\n\x1b[31m(float*)', None),
    ],
)
def test_names_are_short_and_plain(signature: str, name: str | None) -> None:
    shown = short(signature)
    assert name is None or shown == name
    assert len(shown) <= 100
    assert not set(shown) & set('"\\\n\x1b')
