"""Every label is whole, uses the agreed kinds, and is hidden from the judge."""

import re

import pytest
from diagnosis import labels
from diagnosis.labels import Case

from agent import problems

CASES = labels.cases()


def test_the_vocabulary_is_read() -> None:
    assert {"unbiased-variance", "timeout", "missing-declaration", "unknown-cause"} <= labels.kinds()
    assert {"unknown-cause", "wrong-values", "compile-error"} <= labels.unsure_kinds()
    assert "unbiased-variance" not in labels.unsure_kinds()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_label_uses_agreed_kinds_and_stages(case: Case) -> None:
    assert {kind for fault in case.wrong_by for kind in fault.causes} <= labels.kinds()
    assert set(case.stage) <= {"screen", "build", "run", "verify", "integrity"}
    for pattern in (*(words for fault in case.wrong_by for words in fault.says), case.line):
        re.compile(pattern)


def test_the_name_alone_decides_between_learn_and_closed() -> None:
    split = [case for case in CASES if case.half.removeprefix("third_") in ("learn", "closed")]
    assert [
        str(case) for case in split if case.half.removeprefix("third_") != labels.half_of(case.name)
    ] == []
    assert [labels.half_of(name) for name in ("a", "b", "c", "d")] == ["closed", "learn", "closed", "learn"]


def test_a_folder_is_a_half() -> None:
    assert {path.name for path in labels.CORPUS.iterdir() if path.is_dir()} <= set(labels.HALVES)
    assert "unseen" in labels.HALVES


def test_a_label_names_one_fault_or_two() -> None:
    label: dict[str, object] = {
        "half": "own",
        "name": "n",
        "about": "a",
        "section": "mismatch",
        "problem": "cumsum",
    }
    label |= {"stage": ["verify"]}
    fault = {"causes": ["wrong-axis"], "says": ["dim"]}
    assert len(Case.model_validate(label | fault).wrong_by) == 1
    assert len(Case.model_validate(label | {"faults": [fault, fault]}).wrong_by) == 2
    for wrong in ({}, {"faults": [fault]}, fault | {"faults": [fault, fault]}, {"causes": ["wrong-axis"]}):
        with pytest.raises(ValueError, match="fault"):
            Case.model_validate(label | wrong)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reference_is_there(case: Case) -> None:
    assert problems.path(case.address).is_file()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_label_is_hidden_from_the_judge(case: Case) -> None:
    assert case.about not in case.source
    assert not re.search(r"^# (about|causes|says|faults|section) = ", case.source, re.M)


def test_no_two_cases_are_the_same_candidate() -> None:
    sources = [(case.problem, case.source) for case in CASES]
    assert len(set(sources)) == len(sources)
