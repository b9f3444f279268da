"""At which sizes the emulator judges, and what a verdict says of kernels that it did not reach."""

from collections.abc import Sequence

import pytest
from verdicts import refused, verified

from agent.harness.judge import shrunken_sizes
from agent.harness.judge.shrunken_sizes import Shapes, Tried
from agent.harness.task.job import Job
from agent.harness.trial.kernel_coverage import Coverage
from agent.problems import Shrunken
from agent.records import Candidate, Evaluation, Finding, Problem, Scope, Status, TensorSpec, Trace


def trace(*shape: int) -> Trace:
    x = TensorSpec(shape=shape, dtype="float32")
    return Trace(
        operations=(), inputs=(x,), init_inputs=(), outputs=(x,), state=(), flops=x.elements,
        min_bytes=8 * x.elements,
    )  # fmt: skip


def plan(source: str, hard: tuple[int, ...] = (), **sizes: tuple[int, int]) -> Shrunken:
    used = trace(*(after for _, after in sizes.values()))
    return Shrunken(source=source, sizes=dict(sizes), trace=used, full=False, fits=True, hard=hard)


REAL = Problem(name="p", source="real", trace=trace(1 << 15, 1 << 15))
LARGE = plan("large", (1 << 15,), rows=(1 << 15, 512), columns=(1 << 15, 16384))
SMALL = plan("small", (1 << 15,), rows=(1 << 15, 512), columns=(1 << 15, 64))
WIDE = plan("wide", (), rows=(1 << 15, 2), columns=(1 << 15, 1 << 15))
TALL = plan("tall", (), rows=(1 << 15, 1 << 15), columns=(1 << 15, 2))
SCOPE = Scope(executor="emulator")
RIGHT = verified(1, executor="emulator").evaluation
WRONG = refused(1).evaluation


def job(candidate: str = "") -> Job:
    return Job(
        problem=REAL, candidate=Candidate(problem="p", source=candidate), executor="emulator",
        candidate_timeout_s=1, cache_dir="-", shrunken=SMALL, requests=("backward",),
    )  # fmt: skip


class Trials:
    """Trials with prepared ends, by the source they judge; notes what was asked."""

    def __init__(self, **ends: tuple[Evaluation, Sequence[str], Coverage]) -> None:
        self.ends = ends
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []

    def tried(self, job: Job, at: Shapes, warnings: tuple[Finding, ...]) -> Tried:
        self.asked.append((at.source, job.protocol, job.requests))
        evaluation, ran, found = self.ends[at.source]
        return Tried(evaluation.model_copy(update={"scope": at.scope}), tuple(ran), found)

    def judged(self, candidate: str = "") -> Evaluation:
        return shrunken_sizes.judged(job(candidate), SCOPE, (), lambda what: None, self.tried)


def test_a_kernel_of_the_real_sizes_is_judged_where_it_runs() -> None:
    trials = Trials(
        small=(RIGHT, ["plain"], Coverage(("fast",), (WIDE,))), wide=(RIGHT, ["fast"], Coverage())
    )
    found = trials.judged()
    assert found.status is Status.VERIFIED
    assert trials.asked == [("small", "full", ("backward",)), ("wide", "further", ())]
    assert found.scope.sizes == SMALL.sizes
    assert found.scope.further == ({"rows": (1 << 15, 2)},)
    assert found.scope.unexercised == ()
    assert found.correctness is not None
    assert found.correctness.draws == 6
    assert "and (rows 32768->2)" in str(found.scope)
    assert "except" not in str(found.scope)


def test_a_kernel_that_never_ran_is_named() -> None:
    name = "void scan(float*) [with int N = 8]"
    trials = Trials(
        small=(RIGHT, ["plain"], Coverage((name, "fast"), (WIDE,))), wide=(RIGHT, ["fast"], Coverage())
    )
    found = trials.judged()
    assert found.status is Status.VERIFIED
    assert found.scope.unexercised == ("scan<8>",)
    assert str(found.scope).endswith(", except kernel scan<8>, which only the real sizes launch")
    assert found.scope.limits == ("shrunken", "except scan<8>")


def judged_with_large(trials: Trials, candidate: str = "") -> Evaluation:
    given = job(candidate)
    given = given.model_copy(update={"shrunken": SMALL.model_copy(update={"large": LARGE})})
    return shrunken_sizes.judged(given, SCOPE, (), lambda what: None, trials.tried)


def test_sizes_too_costly_for_one_draw_are_approached() -> None:
    trials = Trials(small=(RIGHT, [], Coverage()), large=(RIGHT, [], Coverage()))
    found = judged_with_large(trials)
    assert found.status is Status.VERIFIED
    assert trials.asked == [("small", "full", ("backward",)), ("large", "large", ())]
    assert found.scope.further == ({"rows": (1 << 15, 512), "columns": (1 << 15, 16384)},)


def test_a_fault_of_large_sizes_alone_refuses_and_says_so() -> None:
    trials = Trials(small=(RIGHT, [], Coverage()), large=(WRONG, [], Coverage()))
    found = judged_with_large(trials)
    assert found.status is Status.INCORRECT
    assert found.headline is not None
    assert found.headline.message.startswith(
        "At larger sizes (rows 32768->512, columns 32768->16384) alone: "
    )


@pytest.mark.parametrize(
    ("candidate", "end"),
    [("n = 32768", WRONG), ("", refused(1, status=Status.TIMEOUT).evaluation)],
)
def test_large_sizes_that_prove_nothing_are_named(candidate: str, end: Evaluation) -> None:
    trials = Trials(small=(RIGHT, [], Coverage()), large=(end, [], Coverage()))
    found = judged_with_large(trials, candidate)
    assert found.status is Status.VERIFIED
    assert any(check.startswith("values at larger sizes (rows 32768->512") for check in found.scope.skipped)


def test_two_more_places_are_both_judged() -> None:
    trials = Trials(
        small=(RIGHT, ["plain"], Coverage(("a", "b"), (WIDE, TALL))),
        wide=(RIGHT, ["a"], Coverage()),
        tall=(RIGHT, ["b"], Coverage()),
    )
    found = trials.judged()
    assert found.scope.unexercised == ()
    assert len(found.scope.further) == 2


def test_a_fast_kernel_that_is_wrong_is_incorrect() -> None:
    trials = Trials(
        small=(RIGHT, ["plain"], Coverage(("fast",), (WIDE,))), wide=(WRONG, ["fast"], Coverage())
    )
    found = trials.judged()
    assert found.status is Status.INCORRECT
    assert found.scope.sizes == {"rows": (1 << 15, 2)}


def test_a_literal_of_a_size_that_changed_there_makes_that_no_proof() -> None:
    held = WIDE.model_copy(update={"hard": (1 << 15,)})
    trials = Trials(
        small=(RIGHT, ["plain"], Coverage(("fast",), (held,))), wide=(WRONG, ["fast"], Coverage())
    )
    found = trials.judged("ROWS = 32768\n")
    assert found.status is Status.UNSUPPORTED
    assert found.findings[0].kind == "hard-coded-size"
    assert found.findings[1].severity == "note"


def test_taking_too_long_at_other_sizes_leaves_the_kernel_out() -> None:
    slow = refused(1, status=Status.TIMEOUT).evaluation
    trials = Trials(small=(RIGHT, ["plain"], Coverage(("fast",), (WIDE,))), wide=(slow, [], Coverage()))
    found = trials.judged()
    assert found.status is Status.VERIFIED
    assert found.scope.unexercised == ("fast",)
    assert any("took longer" in reason for reason in found.scope.skipped)


def test_a_candidate_with_literals_is_judged_where_its_host_code_runs() -> None:
    trials = Trials(
        small=(refused(1, status=Status.RUNTIME_ERROR).evaluation, [], Coverage(("fast",), (WIDE,))),
        wide=(RIGHT, ["fast"], Coverage()),
    )
    found = trials.judged("ROWS = 32768\n")
    assert found.status is Status.VERIFIED
    assert trials.asked == [("small", "full", ("backward",)), ("wide", "full", ("backward",))]
    assert found.scope.sizes == {"rows": (1 << 15, 2)}
    assert found.scope.further == ()


def test_a_candidate_that_declines_small_sizes_is_judged_where_its_host_code_runs() -> None:
    check = Finding(kind="host-check-failed", message="The candidate's own check failed: multiples of 128.")
    declined = refused(1, check, status=Status.RUNTIME_ERROR).evaluation
    trials = Trials(
        small=(declined, [], Coverage(("fast",), (WIDE,))), wide=(RIGHT, ["fast"], Coverage())
    )  # fmt: skip
    found = trials.judged()
    assert found.status is Status.VERIFIED
    assert found.scope.sizes == {"rows": (1 << 15, 2)}
    wrong = Trials(small=(declined, [], Coverage(("fast",), (WIDE,))), wide=(WRONG, [], Coverage()))
    assert wrong.judged().status is Status.INCORRECT
    nowhere = Trials(small=(declined, [], Coverage(("fast",)))).judged()
    assert (nowhere.status, nowhere.findings[0].kind) == (Status.UNSUPPORTED, "sizes-declined")


def test_one_that_raises_at_the_real_sizes_too_is_wrong() -> None:
    error = Finding(kind="python-error", message="the call failed: NameError: x")
    trials = Trials(
        small=(refused(1, error, status=Status.RUNTIME_ERROR).evaluation, [], Coverage(left_out=("raises",)))
    )
    assert trials.judged().status is Status.RUNTIME_ERROR
    assert len(trials.asked) == 1


def test_without_literals_the_first_failure_stands() -> None:
    trials = Trials(small=(WRONG, [], Coverage(("fast",), (WIDE,))), wide=(RIGHT, ["fast"], Coverage()))
    assert trials.judged().status is Status.INCORRECT
    assert len(trials.asked) == 1


def test_a_candidate_with_literals_that_runs_nowhere_is_unsupported() -> None:
    trials = Trials(small=(WRONG, [], Coverage()))
    found = trials.judged("ROWS = 32768\n")
    assert found.status is Status.UNSUPPORTED
    assert found.findings[0].kind == "hard-coded-size"


def test_what_the_real_sizes_launch_matters_after_a_verdict_at_small_ones_only() -> None:
    small, full = Shapes("small", SMALL.trace, SCOPE.model_copy(update={"shapes": "shrunken"})), SCOPE
    assert shrunken_sizes.wanted(job(), small, Status.VERIFIED)
    assert not shrunken_sizes.wanted(job(), Shapes("real", REAL.trace, full), Status.VERIFIED)
    assert not shrunken_sizes.wanted(job().model_copy(update={"protocol": "further"}), small, Status.VERIFIED)
    assert not shrunken_sizes.wanted(job(), small, Status.INCORRECT)
    assert shrunken_sizes.wanted(job("ROWS = 32768\n"), small, Status.INCORRECT)
    assert not shrunken_sizes.wanted(job("ROWS = 32768\n"), small, Status.BUILD_ERROR)
    assert shrunken_sizes.wanted(job(), small, Status.RUNTIME_ERROR, "host-check-failed")
    assert not shrunken_sizes.wanted(job(), small, Status.RUNTIME_ERROR, "out-of-bounds")
