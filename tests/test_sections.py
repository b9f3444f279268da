"""Tests that sections are shortened by whole pieces and say how many are missing."""

from hypothesis import given
from hypothesis import strategies as st

from agent import sections

PIECES = st.lists(st.text(alphabet="ab ", min_size=1, max_size=60), max_size=12)


@given(PIECES, st.integers(0, 60))
def test_the_first_pieces_are_whole_in_order_and_within_the_limit(pieces: list[str], limit: int) -> None:
    kept = sections.first(pieces, limit, str)
    assert list(kept) == pieces[: len(kept)]
    assert len(kept) >= min(1, len(pieces))
    if len(kept) > 1:
        assert sum(map(sections.tokens, kept)) <= limit


@given(PIECES, st.integers(0, 60))
def test_the_last_pieces_are_the_first_of_the_reverse(pieces: list[str], limit: int) -> None:
    assert sections.last(pieces, limit, str) == sections.first(pieces[::-1], limit, str)[::-1]


def test_paragraphs_say_how_many_are_missing() -> None:
    text = "\n\n".join(["headline " * 10, "second " * 10, "third " * 10])
    assert sections.paragraphs(text, 1_000) == text
    assert sections.paragraphs(text, 50).endswith("(1 more paragraph left out for length.)")
    assert sections.paragraphs(text, 1) == "headline " * 10 + "\n\n(2 more paragraphs left out for length.)"
