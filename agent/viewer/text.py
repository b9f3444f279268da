"""Untrusted text as it may stand on a page: visible, and of bounded length.

Escaping is the templates' part. Here a character that would steer a terminal, hide, or reorder what
is read becomes one that can be seen; nothing is dropped silently.
"""

import unicodedata
from typing import NamedTuple

LONGEST_TEXT = 200_000
"""Characters of one text on a page; sources and prompts are a twentieth of it."""
LONGEST_LINE = 2_000
"""Of one line; beyond it a browser's layout gets slow and nobody reads."""

_CONTROLS = (
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL",
    "BS", "HT", "LF", "VT", "FF", "CR", "SO", "SI",
    "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB",
    "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US",
)  # fmt: skip
"""Names of U+0000 and those that follow. Unicode's pictures of them are missing from many fonts."""
_INVISIBLE = frozenset({"Cf", "Zl", "Zp", "Co"})
"""Formats (among them every mark of direction), line and paragraph separators, private use."""


class Cut(NamedTuple):
    """The beginning of a text, and how many characters are missing from it."""

    text: str
    left_out: int


def visible(text: str) -> str:
    """The text with every control, format and direction character as its name or its code point.

    Tabs and line ends stay; a carriage return before a line end is dropped. A lone surrogate is U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text.replace("\r\n", "\n")))


def _shown(character: str) -> str:
    if character in "\n\t" or " " <= character <= "~":
        return character
    code, category = ord(character), unicodedata.category(character)
    if category == "Cs":
        return "\ufffd"
    if category == "Cc":
        return f"\u27e8{_CONTROLS[code] if code < len(_CONTROLS) else f'U+{code:04X}'}\u27e9"
    return f"\u27e8U+{code:04X}\u27e9" if category in _INVISIBLE else character


def cut(text: str, longest: int = LONGEST_TEXT) -> Cut:
    """The first `longest` characters, each line no longer than LONGEST_LINE and marked where it was cut."""
    begun = text[:longest]
    left_out = len(text) - len(begun)
    if len(begun) <= LONGEST_LINE:
        return Cut(begun, left_out)
    lines = []
    for line in begun.split("\n"):
        if (more := len(line) - LONGEST_LINE) > 0:
            left_out += more
            line = f"{line[:LONGEST_LINE]} \u2026 {more:,} more characters"
        lines.append(line)
    return Cut("\n".join(lines), left_out)
