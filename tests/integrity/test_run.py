"""What is made of verdicts: held against the heading, and on a GPU against the time of an honest twin."""

from pathlib import Path

import pytest
from integrity import corpus, run
from integrity.corpus import Expected, Program
from integrity.run import Case, Verdict

PROGRAMS = {(program.kind, program.name): program for program in corpus.programs()}


def verdict(kind: corpus.Kind, name: str, ms: float | None = None, speedup: float | None = None) -> Verdict:
    digest = PROGRAMS[kind, name].digest
    return Verdict(kind, name, True, digest, "verified", "measure", "", 1.0, ms, speedup)


HONEST = verdict("honest", "one_thread_a_row", ms=2.0, speedup=0.5)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"ms": 2.1, "speedup": 0.48}, ""),
        ({"ms": 1.85, "speedup": 0.52}, ""),
        ({"ms": 0.2, "speedup": 5.0}, "is said to take 0.2 ms"),
        ({"ms": 2.0, "speedup": 5.0}, "is said to be 5 times as fast"),
        ({}, "was not timed together with one_thread_a_row"),
    ],
)
def test_an_attack_that_is_verified_on_a_gpu_was_timed_truthfully(
    times: dict[str, float], words: str
) -> None:
    program = PROGRAMS["attacks", "content_cache"]
    attack = verdict("attacks", "content_cache", times.get("ms"), times.get("speedup"))
    assert words in run.difference(attack, program, "cuda", HONEST)
    assert bool(run.difference(attack, program, "cuda", HONEST)) is bool(words)
    assert run.difference(attack, program, "emulator") == "is verified, expected rejected"


def test_the_twin_is_found_among_the_verdicts() -> None:
    attack = verdict("attacks", "content_cache", ms=0.2, speedup=5.0)
    found = run.differences([attack, HONEST], "cuda")
    assert list(found) == [Case(PROGRAMS["attacks", "content_cache"], True)]
    assert run.differences([attack._replace(ms=2.0, speedup=0.5), HONEST], "cuda") == {}


def test_what_is_expected_may_differ_on_a_gpu() -> None:
    program = Program(
        kind="attacks", name="x", about="", category="clock", problem="softmax",
        cuda=Expected(status=("rejected",)),
        bare=Expected(status=("incorrect",), cuda=Expected(status=("timeout",))),
    )  # fmt: skip
    expected = [program.expected(screened, where).status for screened in (True, False)
                for where in ("emulator", "cuda")]  # fmt: skip
    assert expected == [("verified",), ("rejected",), ("incorrect",), ("timeout",)]


def test_every_twin_is_an_honest_program_of_the_same_problem() -> None:
    for program in PROGRAMS.values():
        if program.timed_as:
            assert PROGRAMS["honest", program.timed_as].problem == program.problem


def test_what_has_a_verdict_is_not_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def judge(case: Case, where: corpus.Where) -> Verdict:
        judged.append(case.program.name)
        return verdict(case.program.kind, case.program.name, ms=2.0, speedup=0.5)

    monkeypatch.setattr(run, "judge", judge)
    out = tmp_path / "cuda.json"
    arguments = ["--only", "content_cache", "--executor", "cuda", "--out", str(out), "--resume"]
    assert run.main(arguments) == 0
    assert sorted(judged) == ["content_cache", "one_thread_a_row"]
    assert run.main(arguments) == 0
    assert len(judged) == 2
    assert run.main([*arguments[:-1], "--limit", "1e-9"]) == 0
    assert len(judged) == 2
