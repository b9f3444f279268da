"""Ideas asked for apart from the code: what reads as one, and which lines begin with them."""

import pytest
from search.searching import Events, Judge, Model, searched, terms

from agent.api.limits import plans_first
from agent.config import Settings
from agent.loop import Terms
from agent.records import APPROACH, Completed, Completion, Evaluated, Prompt, Prompted
from agent.search import ideas, plans
from agent.search.lines import tips
from agent.search.shape import expected_gain
from agent.search.tree import Tree
from agent.store import Log, Resume

ANSWER = """Here is what I would try.

1. **One pass.** Keep the row in registers. Bound: 0.120 ms, since 512 MB pass.
2. Two kernels with a partial sum between them.
   They split long rows. Bound: 250 us.
3) Tensor cores for the products, bound ~ 0.09 ms.
4. Whatever comes to mind.
"""


def test_ideas_are_ranked_by_what_they_should_reach() -> None:
    found = plans.read(ANSWER)
    assert [text[:12] for text in found] == ["Tensor cores", "**One pass.*", "Two kernels ", "Whatever com"]
    assert "They split long rows" in found[2]


@pytest.mark.parametrize(
    "answer",
    ["", "I cannot.", "```python\nclass ModelNew: ...\n```", "2. The second alone.", "7. x\n8. y", "1." * 50],
)
def test_what_is_no_list_is_no_plan(answer: str) -> None:
    assert plans.read(answer) == ()


def test_a_long_plan_is_cut() -> None:
    found = plans.read("\n".join(f"{number}. {'word ' * 400}" for number in range(1, 90)))
    assert len(found) == plans.MOST
    assert max(map(len, found)) <= plans.CHARACTERS


class Planner(Model):
    """Answers the question for ideas with a list, or in words."""

    def __init__(self, answer: str = ANSWER) -> None:
        super().__init__()
        self.answer, self.planned = answer, 0

    def complete(self, prompt: Prompt) -> Completion:
        if prompt.template != "plan":
            return super().complete(prompt)
        self.planned += 1
        return Completion(provider=self.name, model=None, text=self.answer)


def planned(search: str, parallel: int = 4) -> Terms:
    return terms(search, parallel=parallel).model_copy(update={"plan": True})


@pytest.mark.parametrize("search", ["beam", "evolve"])
@pytest.mark.parametrize("parallel", [1, 4])
def test_lines_begin_with_what_the_plan_names(search: str, parallel: int) -> None:
    events, provider = Events(), Planner()
    searched(planned(search, parallel), provider, Judge(), events)
    asked = [event for event in events if isinstance(event, Prompted)]
    assert asked[0].prompt.template == "plan"
    assert "Name 3 approaches" in asked[0].prompt.messages[1].content
    assert provider.planned == 1
    roots = [event for event in asked[1:] if event.move.after is None][:4]
    begun = [root.move.idea.removeprefix(APPROACH) for root in roots]
    assert begun == ["", *plans.read(ANSWER)[:3]]
    assert begun[1] in roots[1].prompt.messages[1].content
    answered = next(event.seq for event in events if isinstance(event, Completed) and event.round == 1)
    assert roots[1].seq > answered, "it waits for the plan"
    if parallel > 1:
        assert roots[0].seq < answered, "the first does not"


def test_without_a_readable_plan_lines_begin_as_they_do_without_one() -> None:
    events = Events()
    searched(planned("beam"), Planner("I would rather not."), Judge(), events)
    roots = [event.move for event in events if isinstance(event, Prompted) and event.move.after is None]
    assert [move.idea for move in roots if not move.plan][:4] == [
        ideas.choose_idea(number) for number in range(4)
    ]


def test_a_plan_is_no_line_and_no_attempt_to_make_the_best_faster() -> None:
    events = Events()
    searched(planned("beam", parallel=1), Planner(), Judge(), events)
    tree, bare = Tree(), Tree()
    for event in events:
        tree = tree.take(event)
        if getattr(event, "round", None) != 1:
            bare = bare.take(event)
    assert 1 not in {node.round for node in tips(tree)}
    assert (tree.gains, tree.idle, tree.best) == (bare.gains, bare.idle, bare.best)
    assert expected_gain(tree, planned("beam").shape) == expected_gain(bare, planned("beam").shape)


@pytest.mark.parametrize("search", ["beam", "evolve"])
def test_a_run_with_a_plan_stopped_anywhere_asks_nothing_twice(search: str) -> None:
    events = Events()
    searched(planned(search), Planner(), Judge(), events)
    for known in range(len(events) + 1):
        provider, judge, written = Planner(), Judge(), Events()
        searched(planned(search), provider, judge, written, resume=Resume(Log(tuple(events[:known]))))
        after = [*events[:known], *written]
        asked = [event.prompt.id for event in after if isinstance(event, Prompted)]
        assert len(asked) == len(set(asked))
        answered = [event for event in events[:known] if isinstance(event, Completed)]
        assert provider.planned == (0 if any(event.round == 1 for event in answered) else 1)
        assert any(isinstance(event, Evaluated) for event in after)


def test_a_line_asks_for_no_plan() -> None:
    events = Events()
    searched(planned("line"), Planner(), Judge(), events)
    assert all(event.prompt.template != "plan" for event in events if isinstance(event, Prompted))


@pytest.mark.parametrize(
    ("search", "provider", "given", "wanted"),
    [
        ("evolve", "openai_compat", None, True), ("evolve", "mailbox:box", None, True),
        ("evolve", "replay:run", None, False), ("beam", "openai_compat", None, False),
        ("beam", "openai_compat", True, True), ("evolve", "openai_compat", False, False),
        ("evolve", "compose", True, False), ("beam", "file:answer.py", True, False),
    ],
)  # fmt: skip
def test_a_plan_is_asked_for_where_somebody_can_give_one(
    search: str, provider: str, given: bool | None, wanted: bool
) -> None:
    settings = Settings.model_validate({"search": search, "plan": given})
    assert plans_first(settings, provider) is wanted
