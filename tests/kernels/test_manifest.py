"""kernel.json, the page rendered from it, and the audit that writes it."""

from pathlib import Path

import pytest
from verdicts import OneLook

from agent.errors import EnvironmentFault, UsageError
from agent.kernels import auditing, benching, cases, manifest, page, plot, promoting, sources
from agent.kernels.manifest import Manifest, Measured, Rival, Times
from agent.problems import tracer
from agent.records import (
    Attempt,
    Candidate,
    Correctness,
    Evaluation,
    Finding,
    Problem,
    Scope,
    Status,
)

ROOT = Path(__file__).resolve().parents[2]
WRONG = Finding(kind="wrong-values", message="It is wrong.")


class Judge(OneLook):
    """Gives one verdict, and keeps what it was asked about."""

    name = "emulator"

    def __init__(self, status: Status, executor: str = "emulator") -> None:
        self.status, self.executor = status, executor
        self.asked: list[Candidate] = []

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        self.asked.append(candidate)
        scope = Scope.model_validate({"executor": self.executor, "isolation": "namespaces"})
        if self.status is not Status.VERIFIED:
            return Evaluation(status=self.status, stage="verify", scope=scope, findings=(WRONG,))
        right = Correctness(draws=3, max_abs_err=1e-7, max_rel_err=None, error_budget_ratio=0.05)
        return Evaluation(status=self.status, stage="verify", scope=scope, correctness=right)


@pytest.fixture
def problem() -> Problem:
    source = (ROOT / "references" / "level1" / "gelu.py").read_text(encoding="utf-8")
    return Problem(name="level1/gelu", source=source, trace=tracer.trace(source))


def test_the_page_is_what_the_files_say() -> None:
    assert (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8") == page.render()
    assert (ROOT / "docs" / "kernels.svg").read_text(encoding="utf-8") == plot.render()


def test_an_audit_keeps_the_verdict_with_what_it_was_reached_on(problem: Problem) -> None:
    judge = Judge(Status.VERIFIED)
    known, _ = auditing.audited("gelu", problem, judge, "7.2")
    assert judge.asked[0].source == sources.candidate("gelu")
    assert known.files == sources.files("gelu")
    assert known.verifier_version == "7.2"
    (one,) = (verdict for verdict in known.verified if verdict.verifier_version == "7.2")
    assert (one.status, one.executor, one.error_budget_ratio) == ("verified", "emulator", 0.05)
    assert known.operators[0].startswith("kernelwright::gelu_forward(Tensor x")
    assert known.stale("7.2") is None
    assert known.stale("8.2") == "the judge is 8.2 now, and 7.2 verified it"
    changed = known.model_copy(update={"files": {**known.files, "csrc/block.cuh": "0"}})
    assert changed.stale("7.2") == "its files have changed since it was verified"


def test_a_kernel_that_does_not_hold_loses_its_verifier(problem: Problem) -> None:
    before, _ = auditing.audited("gelu", problem, Judge(Status.VERIFIED), "1.1")
    assert before.stale("1.1") is None
    after, found = auditing.audited("gelu", problem, Judge(Status.INCORRECT), "1.2")
    assert found.status is Status.INCORRECT
    assert after.verifier_version is None
    assert after.stale("1.2") == "it did not hold when it was judged last"
    assert Manifest(name="gelu").stale("1.2") == "it was never verified"


@pytest.mark.parametrize("text", ["", "{bad", '{"name": 3}', '{"name": "gelu", "version": "one"}'])
def test_a_damaged_file_is_named_in_one_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    (tmp_path / "gelu").mkdir()
    (tmp_path / "gelu" / "kernel.json").write_text(text)
    with pytest.raises(
        EnvironmentFault, match=r"gelu/kernel\.json is not a valid kernel manifest .*; remove it"
    ) as caught:
        manifest.load("gelu")
    assert "\n" not in str(caught.value)


def test_every_file_that_decides_is_listed() -> None:
    for name in sources.NAMES:
        listed = set(sources.files(name))
        assert {
            "csrc/element.cuh",
            "csrc/candidate.cuh",
            f"{name}/candidate.py",
            f"{name}/operator.py",
        } <= listed or (name == "group_norm" and f"{name}/csrc/launch.cuh" in listed)
        assert set(sources.device_code(name)) <= listed


def measured(shape: tuple[int, ...], p50: float) -> Measured:
    return Measured(
        gpu="H200", driver="580", cuda="13.0", torch="2.11", date="2026-11-20", commit="abc", shape=shape,
        dtype="float32", candidate_ms=Times(p20=p50, p50=p50, p80=p50), ratio_ci=(1.1, 1.2),
    )  # fmt: skip


def test_new_times_take_the_place_of_the_old_ones() -> None:
    first = manifest.with_times(Manifest(name="gelu"), (measured((2, 3), 1.0), measured((4,), 2.0)))
    again = manifest.with_times(first, (measured((2, 3), 0.5),))
    assert [(one.shape, one.candidate_ms.p50) for one in again.measured] == [((4,), 2.0), ((2, 3), 0.5)]


def test_a_rival_is_shown_beside_the_kernel() -> None:
    rival = Rival(ms=Times(p20=0.4, p50=0.4, p80=0.4), max_abs_err=0.3, rms_err=0.05)
    one = measured((2, 3), 0.5).model_copy(
        update={"rivals": {"TF32": rival}, "max_abs_err": 2e-6, "rms_err": 3e-7, "setting": "8 features"}
    )
    shown = "\n".join(page._times((one,)))
    assert "| [2, 3] | 8 features | TF32 | 0.4 | 0.5 | 0.3, 0.05 | 2e-06, 3e-07 |" in shown
    assert "Beside it" not in "\n".join(page._times((measured((2, 3), 0.5),)))


def test_every_kernel_has_cases_with_their_least_work() -> None:
    for name in sources.NAMES:
        assert all(case.kernel == name and case.least_bytes > 0 for case in cases.list_cases(name))
    fused = cases.list_cases("linear_group_norm_min_bias")[0]
    assert fused.flops == 2 * 1024 * 8192 * 8192
    assert fused.least_bytes == 4 * (1024 * 8192 + 8192 * 8192 + 4 * 8192 + 8192 * 1024)
    assert {"TF32"} == {name for case in cases.list_cases("linear_fp32x3") for name in case.rivals}


def test_the_interval_of_the_ratio_is_against_torchs_better_side() -> None:
    rounds = [{"ours": 1.0, "eager": 3.0, "compile": 2.0 + step / 1000} for step in range(40)]
    low, high = benching.interval(rounds)
    assert 2.0 <= low < 2.02 < high <= 2.04


def test_only_what_a_gpu_verified_is_promoted(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    sources.files.cache_clear()
    candidate = Candidate(problem="level1/gelu", source="class ModelNew: ...", origin="model")
    seen = Judge(Status.VERIFIED).evaluate(problem, candidate)
    attempt = Attempt(number=2, candidate=candidate, evaluation=seen)
    with pytest.raises(
        UsageError, match="attempt 2 is verified on CPU emulator.*only a kernel that a GPU verifies"
    ):
        promoting.promote(problem, attempt, seen, "run-1", "1.2")
    again = Judge(Status.VERIFIED, "cuda").evaluate(problem, candidate)
    assert sources.promoted() == ()
    name = promoting.promote(problem, attempt, again, "run-1", "1.2")
    assert sources.promoted() == (name,) == ("promoted/gelu",)
    kept = manifest.load(name)
    assert sources.candidate(name) == candidate.source
    assert Path(auditing.reference(name)).read_text() == problem.source
    assert (kept.source, kept.verifier_version) == ("run run-1, attempt 2", "1.2")
    assert kept.stale("1.2") is None
    assert kept.speaks_for_present(kept.verified[0])

    judge = Judge(Status.VERIFIED)
    known, _ = auditing.audited(name, problem, judge, "1.3")
    assert judge.asked[0].source == candidate.source
    assert (known.envelope, len(known.verified)) == (kept.envelope, 2)
    sources.files.cache_clear()
