"""Problems of a suite: KernelBench's levels, the shipped references, a folder, or a list in TOML.

Names the problems in a fixed order, each once. Reads and traces no reference.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from agent import problems
from agent.errors import UsageError
from agent.problems import finding
from agent.records import Record, misfit

SHIPPED = "references"
_LEVELS = re.compile(r"kernelbench:(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?")
_NUMBERED = re.compile(r"(?P<number>[0-9]+)_.*\.py")


class Case(Record):
    """One problem of a suite: its address and its group."""

    address: str
    """Problem address, as `agent run` takes it."""
    group: str
    """Group in reports: `level 1`, or the name of a subfolder."""


class _List(Record):
    """A suite read from a TOML file."""

    problems: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    """Keep only problems whose address contains one of these texts."""
    skip: tuple[str, ...] = ()
    """Leave out problems whose address contains one of these texts."""
    every: int = 1
    """Keep every n-th problem: 5 keeps the fifth, the tenth, ..."""


def cases(suite: str, kernelbench_root: Path | None = None, *, every: int = 1) -> tuple[Case, ...]:
    """Return the problems of a suite, each once; with `every` 5, the fifth, tenth, ... of each group.

    Raises UsageError for a suite that is unknown or empty, or for a list that cannot be read.
    """
    if every < 1:
        raise UsageError(f"--every {every}: give 1 for all problems, 5 for every fifth")
    found = tuple({case.address: case for case in _cases(suite, kernelbench_root)}.values())
    kept = tuple(_every(found, every))
    if not kept:
        raise UsageError(f"suite {suite} holds no problem" + (f" with --every {every}" if found else ""))
    return kept


def _cases(suite: str, root: Path | None) -> Iterator[Case]:
    if levels := _LEVELS.fullmatch(suite):
        first = int(levels["first"])
        for level in range(first, int(levels["last"] or first) + 1):
            yield from _level(level, root)
    elif suite == SHIPPED:
        yield from (Case(address=name, group=name.partition("/")[0]) for name in problems.names())
    elif suite.endswith(".toml"):
        yield from _listed(Path(suite).expanduser(), root)
    elif (folder := Path(suite).expanduser()).is_dir():
        yield from _folder(folder)
    else:
        raise UsageError(
            f"no suite {suite}; give kernelbench:LEVEL, kernelbench:FIRST-LAST, {SHIPPED}, a folder of "
            "references, or a list as a .toml file"
        )


def _level(level: int, root: Path | None) -> Iterator[Case]:
    """Yield the problems of a KernelBench level. Raises UsageError (ProblemError) without a checkout."""
    folder = finding.kernelbench_level(level, root)
    numbered = (_NUMBERED.fullmatch(file.name) for file in folder.iterdir())
    numbers = sorted(int(match["number"]) for match in numbered if match)
    yield from (Case(address=f"kernelbench:{level}/{number}", group=f"level {level}") for number in numbers)


def _folder(folder: Path) -> Iterator[Case]:
    files = (file for file in sorted(folder.rglob("*.py")) if not file.name.startswith(("_", ".")))
    for file in files:
        inside = file.relative_to(folder).parts
        yield Case(address=str(file), group=inside[0] if len(inside) > 1 else folder.resolve().name)


def _listed(file: Path, root: Path | None) -> Iterator[Case]:
    try:
        asked = _List.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except ValidationError as error:
        raise UsageError(f"{file}: {misfit(error)}") from error
    except ValueError as error:
        raise UsageError(f"{file} is no TOML: {error}") from error
    if asked.every < 1:
        raise UsageError(f"{file}: every: give 1 for all problems, 5 for every fifth")
    named = [Case(address=_beside(file, address), group=file.stem) for address in asked.problems]
    found = [*named, *(case for suite in asked.suites for case in _cases(_beside(file, suite), root))]
    kept = [case for case in found if not asked.only or any(text in case.address for text in asked.only)]
    kept = [case for case in kept if not any(text in case.address for text in asked.skip)]
    yield from _every(kept, asked.every)


def _beside(file: Path, address: str) -> str:
    """Resolve a path in a list relative to the list."""
    there = file.parent / address
    return str(there) if there.exists() else address


def _every(found: Sequence[Case], every: int) -> Iterator[Case]:
    for group in dict.fromkeys(case.group for case in found):
        yield from [case for case in found if case.group == group][every - 1 :: every]
