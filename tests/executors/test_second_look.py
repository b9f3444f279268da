"""Which candidates a GPU looks at a second time."""

from pathlib import Path

import pytest
from verdicts import verified

from agent.executors import JudgeOptions, LocalExecutor, local
from agent.harness.task.job import Announce, Job
from agent.problems import Shrunken
from agent.records import Candidate, Evaluation, Measurement, Phase, Problem, Trace

TRACE = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
SIZES = Shrunken(source="", sizes={}, trace=TRACE, full=True, fits=True, hard=())


class Looks(LocalExecutor):
    """Judges by a list of verdicts; `asked` are the jobs."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *verdicts: Evaluation, confirm: bool = True
    ) -> None:
        options = JudgeOptions(candidate_timeout_s=1.0, confirm=confirm)
        super().__init__("cuda", cache_dir=tmp_path, options=options)
        self.asked: list[Job] = []
        remaining = iter(verdicts)

        def judged(job: Job, announce: Announce) -> Evaluation:
            self.asked.append(job)
            return next(remaining)

        monkeypatch.setattr(local, "judged", judged)

    def _sizes(self, problem: Problem) -> Shrunken:
        return SIZES

    def looks(self, rival: Measurement | None = None) -> list[bool]:
        """Of each look whether it was the second."""
        self.judged_against(rival)
        return [job.confirms for job in self.asked]

    def judged_against(self, rival: Measurement | None) -> Evaluation:
        problem = Problem(name="level1/x", source="", trace=TRACE)
        candidate = Candidate(problem=problem.name, source="")
        given = Job(
            problem=problem, candidate=candidate, executor="cuda", candidate_timeout_s=1.0, cache_dir="."
        )
        return self.judge(given, rival)


def timed(ms: float, *, host_bound: bool = False, backend: str = "load_inline") -> Evaluation:
    found = verified(1, ms).evaluation
    assert found.measurement is not None
    assert found.build is not None
    return found.model_copy(
        update={
            "measurement": found.measurement.model_copy(update={"host_bound": host_bound}),
            "build": found.build.model_copy(update={"backend": backend}),
        }
    )


BEST = timed(1.0).measurement


def test_a_new_best_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert Looks(monkeypatch, tmp_path, timed(0.5), timed(0.5)).looks(BEST) == [False, True]
    assert Looks(monkeypatch, tmp_path, timed(2.0)).looks(BEST) == [False]


def test_what_a_fast_build_holds_up_is_timed_by_a_stock_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = timed(2.0, host_bound=True, backend="gpu-slim")
    assert Looks(monkeypatch, tmp_path, slow, timed(0.5)).looks(BEST) == [False, True]
    by_stock = timed(2.0, host_bound=True)
    assert Looks(monkeypatch, tmp_path, by_stock).looks(BEST) == [False]


def test_the_phases_of_both_looks_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = timed(0.5).model_copy(update={"phases": (Phase(name="building", seconds=2.0),)})
    second = timed(0.5).model_copy(update={"phases": (Phase(name="building", seconds=30.0),)})
    executor = Looks(monkeypatch, tmp_path, first, second)
    assert [(phase.name, phase.seconds) for phase in executor.judged_against(BEST).phases] == [
        ("building", 2.0), ("new best, building", 30.0)
    ]  # fmt: skip


def test_there_is_one_look_where_a_second_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Looks(monkeypatch, tmp_path, timed(0.5), confirm=False).looks(BEST) == [False]
