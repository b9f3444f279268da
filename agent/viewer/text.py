"""Untrusted text made safe for a page: all characters visible, and the length bounded.

The templates do the escaping. This module replaces characters that would steer a terminal, hide, or reorder
text with visible ones. It drops nothing silently.
"""

import unicodedata
from typing import NamedTuple

LONGEST_TEXT = 200_000
"""Maximum characters of one text on a page. Sources and prompts are about a twentieth of that."""
LONGEST_LINE = 2_000
"""Maximum characters of one line. A browser lays out longer lines slowly, and nobody reads them."""

_CONTROLS = (
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL",
    "BS", "HT", "LF", "VT", "FF", "CR", "SO", "SI",
    "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB",
    "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US",
)  # fmt: skip
"""Names of U+0000 and the characters after it. Many fonts lack Unicode's pictures of them."""
_INVISIBLE = frozenset({"Cf", "Zl", "Zp", "Co"})
"""Unicode categories: format (with all direction marks), line and paragraph separators, private use."""


class Cut(NamedTuple):
    """Beginning of a text, and the number of characters cut off."""

    text: str
    left_out: int


def visible(text: str) -> str:
    """Replace every control, format and direction character with its name or code point.

    Tabs and line ends stay; a carriage return before a line end is dropped. A lone surrogate becomes U+FFFD.
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
    """Cut a text to `longest` characters and its lines to LONGEST_LINE, with a mark on each cut line."""
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
