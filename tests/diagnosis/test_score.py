"""The scorer's rules, the recorded scores, and a sample of the corpus judged anew.

The sample holds every section of the first set's halves (`sample = true`); `pytest --all-kernels
tests/diagnosis` judges all. No case may mislead or raise a false alarm, and one that is recorded as right has
to stay so.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import median

import pytest
from diagnosis import labels, page, score, timings
from diagnosis.faults import FAULTS
from diagnosis.labels import Case
from diagnosis.score import Score

from agent.records import Correctness, Evaluation, Finding, Location, Scope, Severity, Status

CASES = labels.cases()
# The goals that the project set itself for the half that may be read.
RIGHT_AT_LEAST, MISLED_AT_MOST = 0.90, 0.03
TOKENS_AT_MOST = 400
SECONDS_AT_MOST = 3.0
SAMPLE_AT_MOST = 26
"""About ten seconds each, two at a time: within two and a half minutes."""


def wrong(**given: object) -> Case:
    label = {
        "half": "own", "name": "none", "about": "divides by n - 1", "section": "mismatch",
        "problem": "layer_norm", "causes": ("unbiased-variance",), "says": ("unbiased|n - 1",),
        "stage": ("verify",),
    }  # fmt: skip
    return Case.model_validate(label | given)


def right() -> Case:
    return wrong(section="right", causes=(), says=(), stage=())


def refused(kind: str, message: str = "Equals the reference with the unbiased variance.") -> Evaluation:
    return Evaluation(
        status=Status.INCORRECT,
        stage="verify",
        scope=Scope(executor="emulator"),
        findings=(Finding(kind=kind, message=message),),
    )


def verified(severity: Severity | None = None) -> Evaluation:
    found = () if severity is None else (Finding(kind="default-stream", message="m", severity=severity),)
    exact = Correctness(draws=3, max_abs_err=0.0, max_rel_err=0.0, error_budget_ratio=0.0)
    return Evaluation(
        status=Status.VERIFIED,
        stage="verify",
        scope=Scope(executor="emulator"),
        findings=found,
        correctness=exact,
    )


@pytest.mark.parametrize(
    ("case", "evaluation", "outcome"),
    [
        (wrong(), refused("unbiased-variance"), "right"),
        (wrong(), refused("unbiased-variance", "The variance is wrong."), "unsure"),
        (wrong(), refused("unknown-cause"), "unsure"),
        (wrong(), refused("wrong-values"), "unsure"),
        (wrong(), refused("eps-twice"), "misled"),
        (wrong(), verified(), "misled"),
        (wrong(causes=("wrong-values",), says=("every",)), refused("wrong-values", "Every row."), "right"),
        (right(), verified(), "quiet"),
        (right(), verified("note"), "quiet"),
        (right(), verified("warning"), "false alarm"),
        (right(), refused("unknown-cause"), "false alarm"),
    ],
)
def test_a_headline_is_scored_by_the_rules(case: Case, evaluation: Evaluation, outcome: str) -> None:
    assert score.outcome(case, evaluation) == outcome


TWO = wrong(
    causes=(),
    says=(),
    faults=(
        {"causes": ("scan-exclusive",), "says": ("exclusive",)},
        {"causes": ("wrong-axis",), "says": ("dim|axis",)},
    ),
)


@pytest.mark.parametrize(
    ("kinds_and_messages", "outcome"),
    [
        ([("scan-exclusive", "An exclusive scan along dim 0.")], "right"),
        ([("scan-exclusive", "An exclusive scan."), ("wrong-axis", "Along axis 0.")], "right"),
        ([("scan-exclusive", "An exclusive scan."), ("eps-twice", "Along axis 0.")], "one of two"),
        ([("wrong-axis", "Along axis 0.")], "one of two"),
        ([("wrong-axis", "Elsewhere."), ("scan-exclusive", "An exclusive scan.")], "unsure"),
        ([("unknown-cause", "An exclusive scan along dim 0.")], "unsure"),
        ([("eps-twice", "An exclusive scan along dim 0.")], "misled"),
    ],
)
def test_two_faults_are_both_to_be_named(kinds_and_messages: list[tuple[str, str]], outcome: str) -> None:
    findings = tuple(Finding(kind=kind, message=message) for kind, message in kinds_and_messages)
    assert score.outcome(TWO, refused("k").model_copy(update={"findings": findings})) == outcome


def test_the_line_is_looked_up_in_the_candidate_without_its_label() -> None:
    case = next(case for case in CASES if case.line)
    numbers = [n for n, text in enumerate(case.source.splitlines(), 1) if case.line.split("|")[0] in text]
    found = Finding(kind="k", message="m", location=Location(line=numbers[0]))
    evaluation = refused("k").model_copy(update={"findings": (found,)})
    assert score.line_is_named(case, evaluation) is True
    assert score.line_is_named(case, refused("k")) is False
    assert score.line_is_named(wrong(), evaluation) is None


def test_the_sample_has_every_section_of_the_first_set_and_is_small() -> None:
    sample = [case for case in CASES if case.sample]
    first = [case for case in CASES if case.half in ("own", "blind")]
    assert {(case.half, case.section) for case in sample} >= {(case.half, case.section) for case in first}
    assert len(sample) <= SAMPLE_AT_MOST


def test_the_corpus_is_large_enough() -> None:
    blind = [case for case in CASES if case.half == "blind"]
    assert len([case for case in blind if not case.correct]) >= 60
    assert len([case for case in blind if case.correct]) >= 10
    assert len({case.problem for case in blind}) >= 12


def test_the_recorded_scores_are_those_of_the_present_cases() -> None:
    """Of a half all or none: the second set is judged when it is whole."""
    recorded = {given[:3] for given in score.read()}
    judged = {half for half, _, _ in recorded}
    assert judged >= {"own", "blind"}
    assert recorded == {(case.half, case.name, case.digest) for case in CASES if case.half in judged}


def test_the_page_is_rendered_from_the_recorded_scores() -> None:
    assert page.PAGE.read_text() == page.render()


def test_the_own_half_reaches_its_goals() -> None:
    """Of the recorded scores; no goal is set for the half that nobody tunes on."""
    own = [
        (case, given)
        for case in CASES
        for given in score.read()
        if given[:2] == case.key == ("own", case.name)
    ]
    wrong = [given for case, given in own if not case.correct]
    count = Counter(given.outcome for given in wrong)
    assert len(wrong) >= 90
    assert count["right"] >= RIGHT_AT_LEAST * len(wrong)
    assert count["misled"] <= MISLED_AT_MOST * len(wrong)
    assert {given.outcome for case, given in own if case.correct} == {"quiet"}
    assert median(given.tokens for given in wrong) <= TOKENS_AT_MOST


def test_no_right_answer_of_the_first_set_raised_an_alarm() -> None:
    """Those of the second launch on the default stream, of which the judge warns: the page counts them."""
    right = {case.key for case in CASES if case.correct and case.half in ("own", "blind")}
    assert {given.outcome for given in score.read() if given[:2] in right} == {"quiet"}


def test_each_mismatch_was_explained_in_three_seconds() -> None:
    """As recorded by `timings`: what they take here and now is not asked."""
    recorded = timings.read()
    known = {f"{problem}: {name}" for problem, faults in FAULTS.items() for name, _, _ in faults}
    assert known <= set(recorded)
    assert any(name.startswith(timings.LARGE) for name in recorded)
    assert max(recorded.values()) <= SECONDS_AT_MOST


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "judged" in metafunc.fixturenames:
        everything = bool(metafunc.config.getoption("--all-kernels"))
        chosen = [case for case in CASES if everything or case.sample]
        metafunc.parametrize("judged", chosen, ids=str)


@pytest.fixture(scope="module")
def scored(request: pytest.FixtureRequest) -> Iterator[Callable[[Case], Score]]:
    """Scores of the cases this session judges, two at a time."""
    given = [getattr(item, "callspec", None) for item in request.session.items]
    cases = [spec.params["judged"] for spec in given if spec is not None and "judged" in spec.params]
    pool = ThreadPoolExecutor(2)
    pending: dict[Case, Future[Score]] = {case: pool.submit(score.judge, case) for case in cases}
    yield lambda case: pending[case].result()
    pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(900)  # a score waits for those asked for before it
def test_the_feedback_does_not_mislead(judged: Case, scored: Callable[[Case], Score]) -> None:
    recorded = {given[:2]: given for given in score.read()}
    given = scored(judged)
    assert given.outcome not in ("misled", "false alarm", "fault"), given
    assert judged.correct or given.stage in judged.stage, given
    if judged.key in recorded and recorded[judged.key].outcome == "right":
        assert given.outcome == "right", given
