"""Source lines of findings that the runtime reports only by their place in a built library.

The sandbox in which the runtime runs may start no tool; the builder has binutils and the debug information.
Findings are untrusted claims, so only libraries that the builder made are inspected.
"""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent.build.source_map import CANDIDATE
from agent.torch_shim.c_abi import UNLOCATED_LINE

_TIMEOUT_S = 60
_MOST = 256
"""Maximum number of findings resolved; the runtime writes at most 64."""
_FRAME = re.compile(r"(?:.*/)?([^/]+):(\d+)(?: \(discriminator \d+\))?")
_ELSEWHERE = "another line"

Lines = dict[tuple[str, int], int]


def resolve(
    claims: Any, libraries: Iterable[Path], sources: tuple[str, ...] = (CANDIDATE,)
) -> list[dict[str, Any]]:
    """Return the findings with `line` set and `{other}` in messages replaced; merge equal faults on one line.

    `sources` are the file names that the compiler used for the candidate's text. An unresolved finding keeps
    its line None. Claims that are not a list of findings are dropped.
    """
    given = claims[:_MOST] if isinstance(claims, list) else []
    findings = [claim for claim in given if isinstance(claim, dict)]
    lines: Lines = {}
    for library in libraries:
        offsets = {
            place[1]
            for finding in findings
            for key in ("place", "other")
            if (place := _place(finding.get(key))) is not None and place[0] == str(library)
        }
        found = _look_up(library, offsets, sources)
        lines |= {(str(library), offset): line for offset, line in found.items()}
    merged: dict[str, dict[str, Any]] = {}
    for number, finding in enumerate(findings):
        told = _resolved(finding, lines)
        known_place = _place(finding.get("place")) is not None and told.get("line") is not None
        same = [told.get(key) for key in ("kind", "line", "kernel", "severity")]
        key = repr(same if known_place else number)
        if key in merged:
            merged[key]["count"] = _count(merged[key]) + _count(told)
        else:
            merged[key] = told
    return list(merged.values())


def _count(finding: dict[str, Any]) -> int:
    count = finding.get("count")
    return count if isinstance(count, int) else 1


def _place(claim: Any) -> tuple[str, int] | None:
    """Return the library and code offset that a finding gives, or None."""
    if not isinstance(claim, dict):
        return None
    library, offset = claim.get("library"), claim.get("offset")
    return (library, offset) if isinstance(library, str) and isinstance(offset, int) and offset > 0 else None


def _resolved(finding: dict[str, Any], lines: Lines) -> dict[str, Any]:
    def line_of(claim: Any) -> int | None:
        place = _place(claim)
        return lines.get(place) if place is not None else None

    found = {key: value for key, value in finding.items() if key not in ("place", "other")}
    line, other = line_of(finding.get("place")), line_of(finding.get("other"))
    if found.get("line") is None and line is not None:
        found["line"] = line
    if isinstance(found.get("message"), str):
        named = f"line {other}" if other is not None else _ELSEWHERE
        found["message"] = found["message"].replace("{other}", named)
    return found


def _look_up(library: Path, offsets: set[int], sources: tuple[str, ...]) -> dict[int, int]:
    """Return the source line of each code offset, taken from the innermost inlined frame in `sources`."""
    if not offsets:
        return {}
    # A return address belongs to the instruction before it.
    addresses = {hex(offset - 1): offset for offset in offsets}
    command = ["addr2line", "-a", "-i", "-e", str(library), *addresses]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[int, int] = {}
    offset = None
    for row in done.stdout.splitlines():
        if row.startswith("0x"):
            offset = addresses.get(hex(int(row, 16)))
            continue
        frame = _FRAME.fullmatch(row)
        if frame is None or offset is None or offset in found or frame[1] not in sources:
            continue
        if 0 < int(frame[2]) < UNLOCATED_LINE:
            found[offset] = int(frame[2])
    return found
