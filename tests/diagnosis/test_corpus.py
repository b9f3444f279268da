"""Every label is whole, uses the agreed kinds, and is hidden from the judge."""

import re

import pytest
from diagnosis import corpus
from diagnosis.corpus import Case

from agent import problems

CASES = corpus.cases()


def test_the_vocabulary_is_read() -> None:
    assert {"unbiased-variance", "timeout", "missing-declaration", "unknown-cause"} <= corpus.kinds()
    assert {"unknown-cause", "wrong-values", "compile-error"} <= corpus.unsure_kinds()
    assert "unbiased-variance" not in corpus.unsure_kinds()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_label_uses_agreed_kinds_and_stages(case: Case) -> None:
    assert set(case.causes) <= corpus.kinds()
    assert set(case.stage) <= {"screen", "build", "run", "verify", "integrity"}
    for pattern in (*case.says, case.line):
        re.compile(pattern)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reference_is_there(case: Case) -> None:
    assert problems.path(case.address).is_file()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_label_is_hidden_from_the_judge(case: Case) -> None:
    assert case.about not in case.source
    assert not re.search(r"^# (about|causes|says|section) = ", case.source, re.M)


def test_no_two_cases_are_the_same_candidate() -> None:
    sources = [(case.problem, case.source) for case in CASES]
    assert len(set(sources)) == len(sources)
