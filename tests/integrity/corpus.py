"""The programs of the corpora and what is expected of each, read from the comment that heads its file.

The heading is TOML behind `# `:

    about        one line: what the program does
    category     what it is listed under
    problem      a file of `problems/`, or the address of a shipped reference
    status       any of these is right; `verified` where not given
    stage        any of these is right; not compared where not given
    finding      a regular expression that occurs in `kind: message` of the first finding
    timeout_s    the limit of each step, for programs that hang
    confirmed    true: an honest program that on a GPU the second look has to verify too
    sample       true: run by every `make test`
    group        what is tried together: attacks of one idea, with the honest programs nearest to them
    harmless     why nothing is wrong with verifying an attack on the emulator; so `harmless_on_gpu`
    timed_as     an honest program: where the attack is verified on a GPU, its time is not below that one's
    cuda.status  what is right on a GPU where that is something else; so `cuda.stage`, `cuda.finding`

An attack that the screen refuses says also what becomes of it without the screen: `bare.status`,
`bare.stage`, `bare.finding`, `bare.cuda.status` and so on, or `screen_only` with the reason why nothing later
can see it.

Programs that do not yet end as their heading expects, or have no recorded verdict yet, lie in `pending`, in
folders and with headings as here; they move to `programs` with the change that makes them end so.
"""

import hashlib
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

HERE = Path(__file__).resolve().parent
PROGRAMS, PENDING, PROBLEMS = HERE / "programs", HERE / "pending", HERE / "problems"
KINDS = ("attacks", "honest", "buggy")
Kind = Literal["attacks", "honest", "buggy"]
Where = Literal["cuda", "emulator"]


class _Stated(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Expected(_Stated):
    """The verdict that is right; `of` says how a given one differs, empty where it does not."""

    status: tuple[str, ...] = ("verified",)
    stage: tuple[str, ...] = ()
    finding: str = ""
    cuda: "Expected | None" = None

    def on(self, where: Where) -> "Expected":
        return self.cuda if self.cuda and where == "cuda" else self

    def of(self, status: str, stage: str, finding: str) -> str:
        if status not in self.status:
            return f"is {status}, expected {' or '.join(self.status)}"
        if self.stage and stage not in self.stage:
            return f"ended at {stage}, expected {' or '.join(self.stage)}"
        if not re.search(self.finding, finding):
            return f"the finding says {finding!r}, expected {self.finding!r}"
        return ""


class Program(Expected):
    """One candidate with its expectations."""

    kind: Kind
    name: str
    pending: bool = False
    group: str = ""
    about: str
    category: str
    problem: str
    timeout_s: float = 60.0
    confirmed: bool = False
    sample: bool = False
    screen_only: str = ""
    harmless: str = ""
    harmless_on_gpu: str = ""
    timed_as: str = ""
    bare: Expected | None = None

    @property
    def source(self) -> str:
        folder = PENDING if self.pending else PROGRAMS
        return (folder / self.kind / f"{self.name}.py").read_text(encoding="utf-8")

    @property
    def digest(self) -> str:
        """Of the program below its heading and of its reference: a recorded verdict is one on these."""
        reference = Path(self.address).read_text() if self.address.endswith(".py") else self.problem
        code = self.source.partition("\n\n")[2]
        return hashlib.sha256("\0".join((code, reference)).encode()).hexdigest()[:16]

    @property
    def address(self) -> str:
        own = PROBLEMS / f"{self.problem}.py"
        return str(own) if own.is_file() else self.problem

    def expected(self, screened: bool, where: Where = "emulator") -> Expected:
        """With the screen on or off; what falls past the screen falls in the same way without it."""
        return (self.bare if self.bare and not screened else self).on(where)

    def cases(self) -> tuple[bool, ...]:
        """With the screen, and without it where it has something to say: else both are one evaluation."""
        return (True, False) if self.bare else (True,)


@cache
def programs() -> tuple[Program, ...]:
    """All of them, attacks first, in alphabetical order."""
    return tuple(_read(path, kind) for kind in KINDS for path in sorted((PROGRAMS / kind).glob("*.py")))


@cache
def pending() -> tuple[Program, ...]:
    """Those that wait for a change of the judge or for a record, which no test judges."""
    return tuple(
        _read(path, kind, pending=True) for kind in KINDS for path in sorted((PENDING / kind).glob("*.py"))
    )


@cache
def twins() -> frozenset[str]:
    """The honest programs that attacks on the clock are held against."""
    return frozenset(program.timed_as for program in programs() if program.timed_as)


def _read(path: Path, kind: str, pending: bool = False) -> Program:
    heading: dict[str, Any] = tomllib.loads("\n".join(_comment(path.read_text(encoding="utf-8"))))
    return Program(kind=kind, name=path.stem, pending=pending, **heading)


def _comment(source: str) -> list[str]:
    lines = source.splitlines()
    first_other = next((i for i, line in enumerate(lines) if not line.startswith("# ")), len(lines))
    return [line.removeprefix("# ") for line in lines[:first_other]]
