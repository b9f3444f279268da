"""The examples of docs/feedback.md are present cases, and what stands under *Before* is taken from a run."""

import pytest
from diagnosis import examples, labels
from verdicts import refused

from agent.records import Evaluation, Finding

CASES = {str(case): case for case in labels.cases()}
MISMATCH = CASES["blind/cumsum_carry_forgotten"]


def found(evidence: str) -> Evaluation:
    return refused(1, Finding(kind="wrong-values", message="m", evidence=evidence)).evaluation


def test_each_is_another_wrong_answer() -> None:
    assert len(set(examples.EXAMPLES)) == len(examples.EXAMPLES)
    assert not [name for name in examples.EXAMPLES if CASES[name].correct]


def test_a_mismatch_was_one_number_before() -> None:
    evidence = "first (0, 1): got 1.5, expected 1\nworst (3, 4): got -2, expected 1e0"
    assert examples.before(MISMATCH, found(evidence)) == "Output mismatch: max_difference = 3"


def test_an_exception_was_the_end_of_its_traceback_before() -> None:
    evidence = "Traceback (most recent call last)\n" + "\n".join(map(str, range(40)))
    assert examples.before(MISMATCH, found(evidence)).splitlines() == [str(n) for n in range(25, 40)]


def test_nothing_is_made_up_where_the_run_says_nothing() -> None:
    with pytest.raises(ValueError, match="hold no values and no log"):
        examples.before(MISMATCH, found("all of it is wrong"))


@pytest.mark.parametrize("name", examples.EXAMPLES)
def test_the_load_inline_call_of_an_example_is_read(name: str) -> None:
    request = examples.build_request(CASES[name].source)
    assert "__global__" in "".join(request.cuda_sources)
    assert request.functions


def test_the_page_shows_them_in_order() -> None:
    page = examples.PAGE.read_text(encoding="utf-8")
    places = [page.index(f"`{name}`") for name in examples.EXAMPLES]
    assert places == sorted(places)
    assert page.count("Before:") == page.count("After:") == len(examples.EXAMPLES)
