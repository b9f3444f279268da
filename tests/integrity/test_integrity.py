"""The corpora of attacks, honest and buggy answers get the verdicts that their headings expect.

The screen reads every program. `make test` judges the sample, at least one program of every category, attacks
with and without the screen; `--all-kernels` judges all.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial

import pytest
from integrity import corpus, page, run
from integrity.corpus import Program
from integrity.run import Case, Verdict

from agent import problems, screen
from agent.emulator.replay.operators import allowed
from agent.records import Candidate

PROGRAMS = corpus.programs()
AT_LEAST = {"attacks": 50, "honest": 30, "buggy": 30}
pytestmark = pytest.mark.timeout(900)  # a verdict waits for those asked for before it


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = bool(metafunc.config.getoption("--all-kernels"))
    if "case" in metafunc.fixturenames:
        chosen = [program for program in PROGRAMS if everything or program.sample]
        metafunc.parametrize("case", run.cases(chosen), ids=str)
    elif "program" in metafunc.fixturenames:
        metafunc.parametrize("program", PROGRAMS, ids=lambda program: f"{program.kind}/{program.name}")


@pytest.fixture(scope="module")
def verdict(request: pytest.FixtureRequest) -> Iterator[Callable[[Case], Verdict]]:
    """Verdicts of the cases this session runs, two at a time."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    given = [spec.params.get("case") for spec in specs if spec is not None]
    cases = [case for case in given if isinstance(case, Case)]
    pool = ThreadPoolExecutor(2)
    pending: dict[Case, Future[Verdict]] = {case: pool.submit(run.judge, case) for case in cases}
    yield lambda case: pending[case].result()
    pool.shutdown(cancel_futures=True)


def test_the_verdict_is_as_expected(case: Case, verdict: Callable[[Case], Verdict]) -> None:
    assert run.difference(verdict(case), case.program) == ""


def test_the_screen_says_what_the_heading_expects(program: Program) -> None:
    candidate = Candidate(problem=program.problem, source=program.source)
    found = screen.check(reference(program), candidate, partial(allowed, setting="gemm-conv"))
    errors = [f for f in found if f.severity == "error"]
    refused_here = (
        program.stage == ("screen",) or program.category == "build" and program.status == ("rejected",)
    )
    assert bool(errors) is refused_here, errors
    if errors:
        assert program.of("rejected", "screen", f"{errors[0].kind}: {errors[0].message}") == ""


@cache
def reference(program: Program) -> str:
    return problems.finding.source(problems.path(program.address))


@pytest.mark.parametrize("kind", corpus.KINDS)
def test_every_category_has_programs_and_is_sampled(kind: str) -> None:
    own = [program for program in PROGRAMS if program.kind == kind]
    assert len(own) >= AT_LEAST[kind]
    assert {program.category for program in own} == set(page.CATEGORIES[kind])
    assert {program.category for program in own if program.sample} == set(page.CATEGORIES[kind])


def test_what_the_screen_refuses_is_said_about_later_stages() -> None:
    attacks = [program for program in PROGRAMS if program.kind == "attacks"]
    for program in attacks:
        bare = program.bare.status if program.bare else ()
        assert "verified" not in (*program.status, *bare) or program.harmless, program.name
        on_gpu = {
            status for screened in (True, False) for status in program.expected(screened, "cuda").status
        }
        assert "verified" not in on_gpu or program.timed_as or program.harmless_on_gpu, program.name
        said = bool(program.bare) + bool(program.screen_only)
        assert said == (program.stage == ("screen",)), program.name


def test_honest_answers_are_expected_to_be_verified() -> None:
    assert {program.status for program in PROGRAMS if program.kind == "honest"} == {("verified",)}


def test_what_is_pending_has_a_heading_of_the_corpora() -> None:
    pending = corpus.pending()
    assert not {(p.kind, p.name) for p in pending} & {(p.kind, p.name) for p in PROGRAMS}
    for program in pending:
        assert reference(program), program.name
        assert program.category in page.CATEGORIES[program.kind], program.name
        assert ("verified" in program.status) == (program.kind == "honest"), program.name


def test_the_page_is_rendered_from_the_recorded_verdicts() -> None:
    assert page.PAGE.read_text() == page.render()


def test_the_recorded_verdicts_are_those_of_the_present_programs() -> None:
    recorded = {(v.kind, v.name, v.screened): v.digest for v in run.read(run.RECORD)}
    present = {(c.program.kind, c.program.name, c.screened): c.program.digest for c in run.cases(PROGRAMS)}
    assert recorded == present
