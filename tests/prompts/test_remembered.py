"""What prompts say of earlier attempts, and what they leave out for length: whole pieces only."""

import pytest
from verdicts import refused, verified

from agent import prompts, resources, sections
from agent.memory import Ledger
from agent.prompts import Situation
from agent.records import Attempt, Feedback, Finding, Location, Operation, Problem, TensorSpec, Trace

SHAPE = TensorSpec(shape=(4,), dtype="float32")
LONG = "\n".join(f"value_{number} = {number}" for number in range(3_000)) + "\n"
FAULT = Finding(kind="eps-twice", message="eps twice", location=Location(line=8))
CODE = "\n".join(f"line_{number} = {number}" for number in range(1, 31)) + "\n"


def problem(*operators: str) -> Problem:
    operations = tuple(
        Operation(
            op=name, overload=f"aten.{name}.default", inputs=(SHAPE,), outputs=(SHAPE,), attributes={},
            flops=4, bytes=32, takes_result_of=(None,),
        )
        for name in operators
    )  # fmt: skip
    trace = Trace(
        operations=operations,
        inputs=(SHAPE,),
        init_inputs=(),
        outputs=(SHAPE,),
        state=(),
        flops=4,
        min_bytes=32,
    )
    return Problem(name="p", source="class Model: ...\n", trace=trace)


def asked(situation: Situation, given: Problem | None = None) -> str:
    return prompts.render(given or problem("abs"), situation).messages[1].content


def repair(last: Attempt, *earlier: Attempt, best: Attempt | None = None, text: str = "found") -> Situation:
    ledger, before = Ledger(), None
    for attempt in (*earlier, last):
        ledger, before = ledger.with_attempt(attempt, before), attempt
    feedback = Feedback(attempt=last.number, kind="eps-twice", text=text)
    return Situation(gpu="H200", last=last, best=best, feedback=feedback, ledger=ledger)


def test_the_last_answer_is_shown_whole_however_long_it_is() -> None:
    assert LONG in asked(repair(refused(1, FAULT, source=LONG)))


@pytest.mark.parametrize(("source", "shown"), [(CODE, True), (LONG, False)])
def test_the_best_code_beside_it_is_shown_whole_or_not_at_all(source: str, shown: bool) -> None:
    prompt = asked(repair(refused(2, FAULT), best=verified(1, source=source)))
    assert (source in prompt) is shown
    assert ("Its code is left out." in prompt) is not shown
    assert "value_0" not in prompt


def test_findings_beyond_their_share_are_counted() -> None:
    text = "\n\n".join(f"{number}. " + "words " * 200 for number in range(1, 6))
    prompt = asked(repair(refused(1, FAULT), text=text))
    assert "1. words" in prompt
    assert "5. words" not in prompt
    assert "paragraphs left out for length.)" in prompt


def test_cards_beyond_their_share_are_left_out_whole() -> None:
    names = sorted(path.stem for path in (resources.folder("prompts") / "partials/ops").iterdir())
    prompt = asked(Situation(gpu="H200"), problem(*names))
    cards = prompt.partition("## Exact definitions")[2]
    assert 0.5 * sections.CARDS < sections.tokens(cards) < 1.1 * sections.CARDS
    assert f"**{names[0]}**(" in cards
    assert f"**{names[-1]}**(" not in cards


def test_the_oldest_attempts_are_forgotten_first() -> None:
    fault = Finding(kind="eps-twice", message="words " * 30)
    attempts = [refused(number, fault, source=f"{CODE}x = {number}\n") for number in range(1, 21)]
    prompt = asked(repair(attempts[-1], *attempts[:-1]))
    assert "older left out)" in prompt
    assert "\nattempt 20, " in prompt
    assert "\nattempt 1:" not in prompt


def test_a_fault_seen_twice_brings_the_lines_around_it() -> None:
    prompt = asked(repair(refused(2, FAULT, source=CODE), refused(1, FAULT)))
    excerpt = prompt.partition("The lines around the one that is named:")[2]
    assert ">    8  line_8 = 8" in excerpt
    assert "     3  line_3 = 3" in excerpt
    assert "    13  line_13 = 13" in excerpt
    assert "line_14 = 14" not in excerpt


def test_back_to_the_best_shows_its_code_and_leaves_the_last_out() -> None:
    earlier = (verified(1, source=CODE), *(refused(number, FAULT) for number in (2, 3, 4)))
    prompt = asked(repair(refused(5, FAULT, source="last = 5\n"), *earlier, best=earlier[0]))
    assert "start again from attempt 1" in prompt
    assert CODE in prompt
    assert "last = 5" not in prompt.partition("What was tried so far")[0]


def test_an_answer_without_code_keeps_the_last_attempt_in_view() -> None:
    earlier = [refused(number, FAULT, source=f"{CODE}x = {number}\n") for number in range(1, 6)]
    situation = repair(earlier[-1], *earlier[:-1])
    unusable = Feedback(attempt=None, kind="no-code", text="There was no code.")
    prompt = asked(situation.model_copy(update={"feedback": unusable}))
    assert earlier[-1].candidate.source in prompt
    assert "Leave this line" not in prompt
