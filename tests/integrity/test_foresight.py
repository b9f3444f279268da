"""Why kept answers fall: nothing in the candidate's process can know the seeds of what comes next."""

import pytest
from integrity import corpus, run

from agent.harness.judge import evaluate
from agent.harness.task import protocol
from agent.harness.trial import trial
from agent.records import Evaluation

KNOWN = 42
"""One of the seeds that the attack has answers for."""
FORESEEN = ("shifted", "scaled", "faint", "sparse", "tied", "negative")
"""The families of inputs that it derives from them."""


def judged(name: str) -> Evaluation:
    (program,) = (program for program in corpus.programs() if program.name == name)
    return evaluate.evaluate(run.asked(program, "emulator"), lambda what: None)


def test_answers_for_foreseen_seeds_need_seeds_that_can_be_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged("seeds_foreseen").stage == "verify"
    monkeypatch.setattr(trial, "secret_seed", lambda: KNOWN)
    monkeypatch.setattr(protocol, "FAMILIES", FORESEEN)
    monkeypatch.setattr(protocol, "VARYING", ())
    # Every value is right then, and what is left to stop it are the inputs that its kernels are repeated on,
    # and those of the call that is made when they do not give the result.
    found = judged("seeds_foreseen")
    assert found.stage == "integrity"
    assert found.headline is not None
    assert found.headline.kind == "own-kernels-do-not-compute-the-result"
