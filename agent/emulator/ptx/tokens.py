"""Tokenizer for PTX text, which keeps the candidate's source positions.

Debug sections and directives about the whole file are left out.
"""

import re
from collections.abc import Collection
from pathlib import PurePosixPath

from agent.emulator.ptx.syntax import Place

_TOKEN = re.compile(r'"[^"]*"|[.%$\w]+(?:::[.\w]+)*|[{}()\[\],;:|!<>=+@~*/&?-]')
_COMMENT = re.compile(r"//.*$")
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_WHOLE_LINE = (".version", ".target", ".address_size", ".file")

Token = str | Place


class _Lines:
    """Mapping from `.loc` directives to positions in the candidate's source.

    Inlined header code gets the position of its caller. The `inlined_at` of a .loc refers to an earlier .loc,
    so nested calls are resolved one level at a time.
    """

    def __init__(self, text: str, sources: Collection[str]) -> None:
        self._own = {number for number, name in _FILE.findall(text) if PurePosixPath(name).name in sources}
        self._callers: dict[tuple[str, str, str], Place] = {}

    def place(self, directive: str) -> Place | None:
        """Return the position in the candidate's source, or None if the directive gives none."""
        match = _LOC.match(directive)
        if match is None:
            return None
        file, line, column = match[1], match[2], match[3]
        if file in self._own and line != "0":
            here = Place(int(line), int(column))
        elif match[4] is not None:
            caller = (match[4], match[5], match[6])
            known = self._callers.get(caller)
            if known is None and match[4] not in self._own:
                return None
            here = known or Place(int(match[5]), int(match[6]))
        else:
            return None
        self._callers[file, line, column] = here
        return here


def tokens(text: str, sources: Collection[str]) -> list[Token]:
    """Return the tokens of `text`, with source positions between them.

    `sources` are the file names (without directories) under which nvcc saw the candidate's code.
    """
    lines = _Lines(text, sources)
    found: list[Token] = []
    in_section = False
    for raw in _BLOCK_COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text).split("\n"):
        line = raw.strip()
        if in_section:
            in_section = line != "}"
        elif line.startswith(".section"):
            in_section = True
        elif line.startswith((".loc\t", ".loc ")):
            place = lines.place(line)
            if place is not None:
                found.append(place)
        elif line and not line.startswith(_WHOLE_LINE):
            found += _TOKEN.findall(_COMMENT.sub("", line) if "//" in line else line)
    return found
