"""How long a candidate may take follows from the reference's time, and a hang is paid for once."""

from typing import Any, Literal

import pytest

from agent.harness.task.call_limits import (
    CONSTRUCTED,
    GRADIENTS,
    LOAD_S,
    PROFILER_S,
    RULES,
    TOOL,
    CallLimits,
    least_s,
)
from agent.harness.task.job import Job
from agent.records import Candidate, Problem, Trace

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
CALL = {"do": "call"}


def job(executor: Literal["cuda", "emulator"], most_s: float = 1000.0) -> Job:
    problem = Problem(name="level1/x", source="", trace=TRACE)
    return Job(
        problem=problem,
        candidate=Candidate(problem=problem.name, source=""),
        executor=executor,
        candidate_timeout_s=most_s,
        cache_dir=".",
    )


@pytest.mark.parametrize("executor", ["cuda", "emulator"])
def test_a_call_has_a_floor_and_a_multiple_of_the_references_time(
    executor: Literal["cuda", "emulator"],
) -> None:
    limits, rule = CallLimits(job(executor)), RULES[executor]
    assert limits.of(CALL).seconds == rule.floor_s
    limits.learn(forward_s=0.05, construct_s=0.5)
    assert limits.of(CALL).seconds == pytest.approx(rule.floor_s + rule.times * 0.05)
    assert limits.call == limits.of(CALL)
    assert "the 50 ms that the reference takes" in limits.call.reason
    assert f"{rule.floor_s:g} s and {rule.times:g} times" in limits.call.reason


def test_the_users_limit_is_the_upper_one() -> None:
    limits = CallLimits(job("cuda", most_s=12.0))
    limits.learn(forward_s=1.0, construct_s=9.0)
    for command in (CALL, {"do": "load", "name": "my_model"}, {"do": "instance"}, {"do": "profile"}):
        assert limits.of(command) == (12.0, "--candidate-timeout")
    assert least_s(job("cuda", most_s=3.0)) == 3.0
    assert least_s(job("cuda")) == RULES["cuda"].floor_s


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ({"do": "load", "name": "my_model"}, LOAD_S),
        ({"do": "instance"}, 10.0 + CONSTRUCTED * 2.0),
        ({"do": "repeated", "times": 40}, 10.0 + 40 * 100 * 0.01),
        ({"do": "row", "times": 8}, 10.0 + 8 * 100 * 0.01),
        ({"do": "beside", "what": "gradients"}, 10.0 + GRADIENTS * 100 * 0.01),
        ({"do": "beside", "what": "try"}, 10.0 + 100 * 0.01),
        ({"do": "beside", "what": "traced"}, 1000.0),
        ({"do": "beside", "what": "operators"}, 1000.0),
        ({"do": "profile"}, 10.0 + PROFILER_S + 100 * 0.01),
    ],
)
def test_each_command_has_the_limit_of_what_it_does(command: dict[str, Any], seconds: float) -> None:
    limits = CallLimits(job("cuda"))
    limits.learn(forward_s=0.01, construct_s=2.0)
    assert limits.of(command).seconds == pytest.approx(seconds)


def test_a_tool_makes_everything_slower() -> None:
    plain, watched = CallLimits(job("cuda")), CallLimits(job("cuda"), under_a_tool=True)
    for limits in (plain, watched):
        limits.learn(forward_s=0.01, construct_s=0.0)
    for command in (CALL, {"do": "load", "name": "my_model"}):
        assert watched.of(command).seconds == pytest.approx(TOOL * plain.of(command).seconds)
