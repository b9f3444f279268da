"""A candidate that hangs is paid for once: no part of the judge tries again what ran out of time."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.emulator.replay.calls import Segment
from agent.emulator.replay.events import Lost
from agent.harness.confirmation import sanitizer
from agent.harness.integrity import replay_check, replay_evidence
from agent.harness.judge import evaluate
from agent.harness.judge.shrunken_sizes import Shapes, Tried
from agent.harness.task import call_limits
from agent.harness.task.job import Job
from agent.harness.trial.gpu_trial import Hung
from agent.problems import Shrunken
from agent.records import Candidate, Evaluation, Finding, Problem, Scope, Status, Trace

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
HANG = Finding(kind="timeout", message="The candidate gave no answer within 30 s while running forward.")
SMALL = Shrunken(source="", sizes={"size": (4096, 32)}, trace=TRACE, full=False, fits=True, hard=(4096,))


def job(source: str = "", **more: Any) -> Job:
    problem = Problem(name="level1/x", source="", trace=TRACE)
    candidate = Candidate(problem=problem.name, source=source)
    fields: dict[str, Any] = {"executor": "emulator", "candidate_timeout_s": 120.0, "shrunken": SMALL}
    return Job(problem=problem, candidate=candidate, cache_dir=".", **(fields | more))


class Tries:
    """In the place of a whole trial: each ends with the same status."""

    def __init__(self, status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: list[Job] = []
        self._status = status
        monkeypatch.setattr(evaluate, "_tried", self._tried)

    def _tried(self, job: Job, at: Shapes, *_: object) -> Tried:
        self.jobs.append(job)
        ended = Evaluation(status=self._status, stage="run", scope=at.scope, findings=(HANG,))
        return Tried(ended)


def test_a_hang_at_small_sizes_is_not_tried_at_the_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Tries(Status.TIMEOUT, monkeypatch)
    found = evaluate._on_emulator(job("size = 4096\n"), Scope(executor="emulator"), (), print)
    assert len(tries.jobs) == 1
    assert found.status is Status.UNSUPPORTED
    assert [finding.kind for finding in found.findings] == ["hard-coded-size", "timeout"]


def test_what_is_wrong_at_small_sizes_still_is(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Tries(Status.INCORRECT, monkeypatch)
    evaluate._on_emulator(job("size = 4096\n"), Scope(executor="emulator"), (), print)
    assert len(tries.jobs) == 2


def test_the_look_for_where_a_gpus_hang_is_has_a_short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Tries(Status.TIMEOUT, monkeypatch)
    at = Shapes("", TRACE, Scope(executor="cuda"))
    for kind, limit_s in (("timeout", call_limits.LOCATING_S), ("illegal-address", 120.0)):
        evaluate._located(job(executor="cuda", locates=kind), at, (), print)
        assert tries.jobs.pop().candidate_timeout_s == limit_s
        monkeypatch.setattr("agent.harness.confirmation.confirmation.sanitized", lambda *_: None)


@pytest.mark.parametrize(("hung", "repeated"), [(True, 1), (False, 2)])
def test_a_replay_that_hangs_is_not_repeated_on_other_inputs(
    hung: bool, repeated: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Finding(kind="own-kernels-not-repeatable", message="They cannot be run again.")
    seeds: list[int] = []

    class Replay:
        program = SimpleNamespace(launches=1, outputs=[SimpleNamespace(elements=64)])

        def __init__(self, *_: object) -> None:
            self.hung = hung

        def refusal(self, seed: int) -> Finding:
            seeds.append(seed)
            return refusal

    monkeypatch.setattr(replay_evidence, "Replay", Replay)
    evidence: Any = SimpleNamespace(folder=tmp_path, only_fresh=False, on_a_gpu=None)
    recorded = replay_check.Recorded([Segment([Lost()], [])], 0, (), 1, 2, 3, family=None, tree=None)
    found = replay_evidence.on_fresh_inputs(recorded, evidence)
    assert found == replay_evidence.Outcome([refusal], may_be_stale=not hung)
    assert hung or not replay_evidence.on_its_own_inputs(recorded, evidence)
    assert len(seeds) == repeated


def test_what_hangs_under_the_tools_is_run_once_and_what_they_said_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run: list[int] = []

    class Trial:
        requests = ()

        def load(self, *, ahead: bool) -> None:
            pass

        def instantiate(self) -> None:
            pass

        def call_under_a_tool(self, calls: int, limit_s: float) -> str:
            run.append(calls)
            raise Hung("========= Invalid __global__ read of size 4 bytes\n=========     at f(float *)+0x1\n")

    monkeypatch.setattr(sanitizer, "tool", lambda: Path("compute-sanitizer"))
    monkeypatch.setattr(sanitizer, "_opened", lambda *_: nullcontext(Trial()))
    asked = job(executor="cuda").model_copy(update={"cache_dir": str(tmp_path)})
    found, skipped = sanitizer.check(asked, SMALL, print)
    assert run == [sanitizer.CALLS] * len(sanitizer.TOOLS)
    assert [finding.kind for finding in found] == ["out-of-bounds"] * len(sanitizer.TOOLS)
    assert len(skipped) == len(sanitizer.TOOLS)


def test_a_tool_that_ends_without_a_summary_is_run_once_more_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    together: list[tuple[str, ...]] = []

    def looked(_job: Job, _at: Shrunken, _command: Path, names: tuple[str, ...]) -> dict[str, Any]:
        together.append(names)
        looks = {name: sanitizer._Look([]) for name in names}
        if len(names) > 1:
            looks["racecheck"] = sanitizer._Look([], "no summary", without_end=True)
        return looks

    monkeypatch.setattr(sanitizer, "tool", lambda: Path("compute-sanitizer"))
    monkeypatch.setattr(sanitizer, "_looked", looked)
    asked = job(executor="cuda").model_copy(update={"cache_dir": str(tmp_path)})
    assert sanitizer.check(asked, SMALL, print) == ([], ())
    assert together == [("memcheck", "racecheck"), ("racecheck",)]


def test_tools_side_by_side_share_one_turn() -> None:
    turns: list[str] = []

    @contextmanager
    def held() -> Iterator[None]:
        turns.append("taken")
        yield
        turns.append("given back")

    turn = sanitizer._Turn(held)
    with turn, turn:
        assert turns == ["taken"]
    assert turns == ["taken", "given back"]
    with turn:
        assert turns[2:] == ["taken"]
