"""The last stage on the emulator: which of the findings at real shapes count, and what the scope says."""

from pathlib import Path
from typing import Any

from sandbox.boxes import PROCESS, child

from agent.harness.integrity import real_shapes
from agent.harness.integrity.launch_limits import Limits
from agent.records import Finding, Location, TensorSpec, Trace
from agent.sandbox import Box, TimedOut

LARGE = TensorSpec(shape=(3, 1 << 30), dtype="float32")
OVERFLOW = Finding(kind="index-overflow", message="element -5", location=Location(line=3, kernel="k"))
ELSEWHERE = OVERFLOW.model_copy(update={"message": "element -7"})
WARNING = OVERFLOW.model_copy(update={"severity": "warning"})


class Process:
    """A candidate's process with one list of findings for each call."""

    def __init__(self, *calls: list[Finding], **answer: Any) -> None:
        self.calls = list(calls)
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def ask(self, command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        self.asked.append(command)
        return self.answer

    def read(self, answer: dict[str, Any]) -> list[Finding]:
        return self.calls[len(self.asked) - 1]

    def check(self, real: Trace) -> tuple[list[Finding], tuple[str, ...]]:
        return real_shapes.check(self.ask, self.read, real)


def trace(*inputs: Any, init_inputs: tuple[Any, ...] = ()) -> Trace:
    return Trace(
        operations=(),
        inputs=inputs,
        init_inputs=init_inputs,
        outputs=(LARGE,),
        state=(),
        flops=0,
        min_bytes=0,
    )


def test_the_call_gets_the_sizes_of_the_problem() -> None:
    process = Process([], notes=[])
    assert process.check(trace(LARGE, 2, init_inputs=(64, [3, 3]))) == ([], ())
    assert process.asked == [
        {
            "do": "real_shapes",
            "init_inputs": [64, [3, 3]],
            "inputs": [{"shape": [3, 1 << 30], "dtype": "float32"}, {"value": 2}],
            "numbers": False,
            "host_only": False,
        }
    ]


def test_what_is_found_over_other_values_too_counts() -> None:
    process = Process([OVERFLOW, ELSEWHERE], [OVERFLOW])
    assert process.check(trace(LARGE)) == ([OVERFLOW], ())
    assert [command["numbers"] for command in process.asked] == [False, True]


def test_an_address_that_depends_on_values_does_not_count() -> None:
    assert Process([OVERFLOW], [ELSEWHERE], notes=[]).check(trace(LARGE)) == ([], ())


def test_warnings_do_not_count() -> None:
    assert Process([WARNING], notes=[]).check(trace(LARGE)) == ([], ())


def test_what_could_not_be_looked_at_is_named() -> None:
    process = Process([], notes=["kernel k: long blocks ran in part"])
    named = ("addresses at the real shape: kernel k: long blocks ran in part",)
    assert process.check(trace(LARGE)) == ([], named)


def test_an_exception_is_named_and_no_verdict() -> None:
    process = Process([], error={"type": "RuntimeError", "message": "out of memory\nmore"})
    named = ("addresses at the real shape: the call failed: RuntimeError: out of memory",)
    assert process.check(trace(LARGE)) == ([], named)


def test_a_value_known_by_its_text_only_is_named() -> None:
    process = Process()
    named = ("addresses at the real shape: an input of the reference is neither a tensor nor a plain value",)
    assert process.check(trace(LARGE, init_inputs=({"mask": ["tensor([1, 2])"]},))) == ([], named)
    assert process.asked == []


def test_a_slow_candidate_is_named_and_no_verdict() -> None:
    def late(command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        raise TimedOut(f"no answer within {limit_s:g} s")

    found = real_shapes.check(late, lambda answer: [], trace(LARGE))
    assert found == (
        [],
        ("addresses at the real shape: the call gave no answer within 30 s",),
    )


def test_a_process_that_was_stopped_says_nothing_more(tmp_path: Path) -> None:
    """A sanitized call that takes too long ends it; what was asked before that still counts."""
    with child("import time; time.sleep(600)", Box(tmp_path, level=PROCESS)) as worker:
        worker.kill()

        def ask(command: dict[str, Any], limit_s: float) -> dict[str, Any]:
            return worker.ask(command, limit_s)

        judged = real_shapes.Judged(trace(LARGE), frozenset(), "gemm-conv", Limits((), ()))
        assert real_shapes.behaves_otherwise(ask, trace(LARGE), judged) is None
        found, left_out = real_shapes.check(ask, lambda answer: [], trace(LARGE))
    assert found == []
    assert "the process was ended by signal" in left_out[0]
