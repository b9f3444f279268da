"""Untrusted text is visible and bounded; sources are numbered as Python numbers them, and coloured."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from viewer.hostile import NASTY

from agent.records import Finding, Location
from agent.store.history import source_lines
from agent.viewer.colours import tokens
from agent.viewer.listing import MOST_LINES, listing
from agent.viewer.text import LONGEST_LINE, LONGEST_TEXT, cut, visible


def at(line: int, kind: str = "k") -> Finding:
    return Finding(kind=kind, message="m", location=Location(line=line))


@given(st.text(st.characters(codec=None)))
def test_nothing_invisible_is_left(text: str) -> None:
    shown = visible(text)
    assert not [
        c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in "\n\t"
    ]
    shown.encode("utf-8")
    assert visible(shown) == shown


def test_what_is_readable_stays_as_it_is() -> None:
    for text in ("", "x = 1\n\ty", "naïve — 112×64, 中文, עברית", "a\r\nb"):
        assert visible(text) == text.replace("\r\n", "\n")
    assert visible("a\0b\x1b[1m\r\x7f\x9b") == "a⟨NUL⟩b⟨ESC⟩[1m⟨CR⟩⟨U+007F⟩⟨U+009B⟩"
    assert visible("\u202eabc\ufeff\ud800") == "⟨U+202E⟩abc⟨U+FEFF⟩\ufffd"


def test_long_texts_and_lines_are_cut_and_counted() -> None:
    assert cut("short\n" * 3) == ("short\n" * 3, 0)
    line = "a" * (LONGEST_LINE + 5)
    assert cut(f"x\n{line}\ny") == (f"x\n{line[:LONGEST_LINE]} \u2026 5 more characters\ny", 5)
    text = "line\n" * LONGEST_TEXT
    assert cut(text) == (text[:LONGEST_TEXT], len(text) - LONGEST_TEXT)


def test_lines_are_numbered_as_findings_point() -> None:
    source = 'a = 1\nS = r"""\n__global__ void k() { f(); }\n"""\r\nb = 2\rc = 3\n'
    shown = listing(source, [at(3), at(99), Finding(kind="nowhere", message="m")])
    assert [line.number for line in shown.lines] == [1, 2, 3, 4, 5, 6]
    assert [line.text.striptags() for line in shown.lines] == source_lines(source)
    assert [bool(line.findings) for line in shown.lines] == [False, False, True, False, False, True]
    assert '<i class="kw">__global__</i>' in shown.lines[2].text


@given(st.text(st.sampled_from("ab \n\r\t\"'#\\<>&;\0\x0c\u2028")))
def test_colouring_changes_no_line(source: str) -> None:
    shown = listing(source)
    plain = [visible(line) for line in source_lines(source)]
    assert [str(line.text.unescape()) for line in shown.lines if "<i" not in line.text] == [
        text for text, line in zip(plain, shown.lines, strict=True) if "<i" not in line.text
    ]
    assert len(shown.lines) == len(plain)


def test_a_source_of_very_many_lines_is_cut() -> None:
    shown = listing("ab\n" * (MOST_LINES + 10))
    assert (len(shown.lines), shown.left_out) == (MOST_LINES, 30)
    assert listing("ab\n" * MOST_LINES).left_out == 0


def test_markup_in_a_source_is_text() -> None:
    for source in (NASTY, f'"""{NASTY}"""', f'S = """\n{NASTY};\n"""'):
        shown = "".join(line.text for line in listing(source).lines)
        assert "<script" not in shown
        assert "<img" not in shown
        assert "&lt;" in shown


@given(st.text(st.sampled_from("ab \n\"'#\\/*;(){}rf0.e<")))
def test_the_pieces_are_the_source(source: str) -> None:
    assert "".join(text for _, text in tokens(source)) == source


@pytest.mark.parametrize(
    "piece", ["a", "/*", '"', "'", "\\", "(", "#", "a(", "f'{", "0.", '"""', '\\"', 'r"', "a\n("]
)
def test_hostile_sources_are_coloured_in_time(piece: str) -> None:
    """200,000 characters that some lexers take minutes for; the suite's time limit is what would end this."""
    for source in (piece * (200_000 // len(piece)), f'S = """\n;{piece * (200_000 // len(piece))}'):
        assert "".join(text for _, text in tokens(source)) == source
