"""Tests that a verdict with unexercised kernels is never shown without naming them."""

from verdicts import verified

from agent.cli import judging, run_tree, verdicts
from agent.records import Attempt, Scope
from agent.viewer import words

SCOPE = Scope(
    executor="emulator", shapes="shrunken", sizes={"columns": (8192, 64)}, further=({"rows": (4096, 2)},),
    unexercised=("scan<8>", "mix"),
)  # fmt: skip
WHOLE = "except kernels scan<8>, mix, which only the real sizes launch"
BRIEF = "verified (emulator, shrunken, except scan<8> and 1 more)"


def attempt() -> Attempt:
    found = verified(1, executor="emulator", shapes="shrunken")
    return found.model_copy(update={"evaluation": found.evaluation.model_copy(update={"scope": SCOPE})})


def test_the_scope_says_it_in_words() -> None:
    assert str(SCOPE) == (
        "CPU emulator, shrunken shapes (columns 8192->64) and (rows 4096->2), isolation process, "
        f"full protocol, {WHOLE}"
    )
    assert "except" not in str(SCOPE.model_copy(update={"unexercised": ()}))


def test_lists_and_pages_say_it_in_brief() -> None:
    assert verdicts.scoped(SCOPE, None) == BRIEF
    assert verdicts.brief(attempt()) == BRIEF
    assert words.verified(SCOPE) == BRIEF
    assert words.verdict(attempt()) == BRIEF


def test_eval_says_it() -> None:
    assert WHOLE in " ".join(judging.verdict(attempt().evaluation).plain.split())


def test_show_says_it() -> None:
    assert any(WHOLE in str(said) for _, said in run_tree._best(attempt()))
