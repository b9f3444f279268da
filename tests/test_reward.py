"""Tests of rewards: their parts, repeatability, and no reward for hacks."""

import re
import threading
from pathlib import Path

import pytest
from doors.serving import REFERENCE, RIGHT, UNDECLARED, WRONG
from integrity import corpus, earned
from transcripts import evaluation

from agent import Checks, Judge, Problem, load_problem, reward
from agent.errors import EnvironmentFault
from agent.records import Candidate, Evaluation, Measurement, Percentiles, Scope, Status


class Given:
    """Judge whose verdict follows the candidate's text, and which counts its calls."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.asked: list[str] = []
        self._lock = threading.Lock()

    def evaluate(self, candidate: Candidate) -> Evaluation:
        with self._lock:
            self.asked.append(candidate.source)
        if "fault" in candidate.source:
            raise EnvironmentFault("the disk is full")
        return evaluation(Status.VERIFIED if "right" in candidate.source else Status.INCORRECT)


def answer(word: str) -> str:
    return f"```python\nclass ModelNew:\n    word = '{word}'\n```"


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load_problem("level1/softmax")


def test_each_candidate_is_judged_once_and_scores_come_in_order(problem: Problem) -> None:
    judge = Given(problem)
    rewards = reward.Rewards(judge, parallel=4)
    batch = [answer("right"), answer("wrong"), "no code", answer("right")]
    first = rewards(batch)
    assert [score.verified for score in first] == [True, False, False, True]
    assert [score.total for score in first] == [
        pytest.approx(1.0),
        pytest.approx(0.1),
        0.0,
        pytest.approx(1.0),
    ]
    assert first[2].why.startswith("no-code")
    assert rewards(batch) == first
    assert len(judge.asked) == 2


def test_a_fault_of_ours_is_no_score_and_is_tried_again(problem: Problem) -> None:
    judge = Given(problem)
    rewards = reward.Rewards(judge)
    (score,) = rewards([answer("fault")])
    assert (score.total, score.verified) == (None, False)
    assert "the disk is full" in score.why
    rewards([answer("fault")])
    assert len(judge.asked) == 2


def test_what_is_rejected_earns_less_than_what_is_wrong() -> None:
    rejected = reward.scored(evaluation(Status.REJECTED))
    wrong = reward.scored(evaluation(Status.INCORRECT))
    unbuilt = reward.scored(evaluation(Status.BUILD_ERROR))
    assert rejected.total == 0.0
    assert rejected.cheating
    assert wrong.total is not None
    assert unbuilt.total is not None
    assert 0 < unbuilt.total < wrong.total
    assert wrong.cheating == unbuilt.cheating == ()


def measured(speedup: float, *, confirmed: bool = True, stable: bool = True) -> Evaluation:
    time = Percentiles(p20=1.0, p50=1.0, p80=1.0)
    eager = Percentiles(p20=speedup, p50=speedup, p80=speedup)
    return evaluation(Status.VERIFIED).model_copy(
        update={
            "scope": Scope(executor="cuda", confirmed=confirmed),
            "measurement": Measurement(
                gpu="H200", candidate_ms=time, eager_ms=eager, compile_ms=None, baseline="eager",
                roofline_fraction=None, method="", speedup_interval=(speedup, speedup + 1), stable=stable,
            ),
        }
    )  # fmt: skip


def test_speed_earns_by_doublings_up_to_a_limit_and_never_costs() -> None:
    totals = [reward.scored(measured(speedup)).total for speedup in (0.5, 1.0, 2.0, 4.0, 1e9)]
    assert totals == [pytest.approx(total) for total in (1.0, 1.0, 1.5, 2.0, 3.0)]
    score = reward.scored(measured(2.0))
    assert (score.speedup, score.against) == (2.0, "eager")


@pytest.mark.parametrize("how", [{"confirmed": False}, {"stable": False}])
def test_a_time_that_is_not_sure_earns_nothing(how: dict[str, bool]) -> None:
    score = reward.scored(measured(8.0, **how))
    assert score.total == pytest.approx(1.0)
    assert score.speedup is None


def test_no_recorded_attack_earns_more_than_a_wrong_answer_but_those_that_compute() -> None:
    harmless = {program.name for program in corpus.programs() if program.harmless}
    assert set(earned.above_a_wrong_answer()) <= harmless


def test_every_honest_answer_earns_more_than_every_wrong_one() -> None:
    assert earned.WRONG is not None
    by_kind = {
        kind: [total for (of, _), rows in earned.totals().items() if of == kind for _, total in rows]
        for kind in ("honest", "buggy")
    }
    assert min(by_kind["honest"]) > max(by_kind["buggy"])
    assert max(by_kind["buggy"]) <= earned.WRONG


def test_the_table_in_the_guide_is_what_the_verdicts_say() -> None:
    assert earned.PAGE.read_text(encoding="utf-8") == earned.render(), "python -m tests.integrity.earned"


@pytest.mark.timeout(600)  # probes the problem if no earlier result is cached
def test_the_example_in_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)\n```\n\n", earned.PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(example, "training.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.timeout(900)  # judges three candidates twice
def test_scores_of_real_verdicts_are_the_same_the_second_time(tmp_path: Path) -> None:
    file = tmp_path / "twice.py"
    file.write_text(REFERENCE)
    batch = [RIGHT, WRONG, UNDECLARED, "I cannot do that."]
    both = [
        reward.Rewards(Judge(file, executor="emulator", checks=Checks(quick=True)), parallel=2)(batch)
        for _ in range(2)
    ]
    assert both[0] == both[1]
    totals = [score.total for score in both[0]]
    assert totals == [pytest.approx(total) for total in (1.0, 0.1, 0.05, 0.0)]
