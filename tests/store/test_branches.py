"""Rounds in their places: lines stay flat, searches are trees."""

import pytest
from transcripts import prompt

from agent.records import Move
from agent.store import Round, branches


def rounds(*after: int | None) -> tuple[Round, ...]:
    return tuple(
        Round(number=number, move=Move(after=one), prompt=prompt("text"))
        for number, one in enumerate(after, 1)
    )


@pytest.mark.parametrize(
    ("after", "placed"),
    [
        ((), []),
        ((None, 1, 2, 3), [(1, 0), (2, 0), (3, 0), (4, 0)]),
        ((None, None, 1, 2, 3), [(1, 0), (3, 1), (5, 1), (2, 0), (4, 1)]),
        ((None, 1, 1, 2), [(1, 0), (2, 1), (4, 1), (3, 1)]),
        ((None, None, None), [(1, 0), (2, 0), (3, 0)]),
        ((7, 2, 2), [(1, 0), (2, 0), (3, 1)]),
    ],
    ids=["none", "line", "beam", "fork", "roots", "unreadable parents"],
)
def test_every_round_has_one_place(after: tuple[int | None, ...], placed: list[tuple[int, int]]) -> None:
    assert [(branch.round.number, branch.depth) for branch in branches.order_rounds(rounds(*after))] == placed


def test_a_long_line_is_no_recursion() -> None:
    assert len(branches.order_rounds(rounds(None, *range(1, 5000)))) == 5000


def test_what_was_asked_names_the_rounds_it_goes_on_from_in_a_tree_alone() -> None:
    assert [branch.asked for branch in branches.order_rounds(rounds(None, 1))] == ["repair", "repair"]
    assert [branch.asked for branch in branches.order_rounds(rounds(None, 1, 1))][1:] == [
        "repair after round 1"
    ] * 2
    both = (*rounds(None, None), Round(number=3, move=Move(after=2, beside=1), prompt=prompt("text")))
    assert branches.order_rounds(both)[2].asked == "repair of rounds 2 and 1"
    assert branches.order_rounds([Round(number=1)])[0].asked == ""
