"""The labelled answers: what is wrong with each, read from the comment that heads its file.

`corpus/README.md` has the keys, the kinds and how a headline is scored. `Case.source` is the file without its
heading: whoever judges or diagnoses a case sees no label. Nothing is judged here.
"""

import hashlib
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

HERE = Path(__file__).resolve().parent
CORPUS, PROBLEMS = HERE / "corpus", HERE / "problems"
Half = Literal[
    "own", "blind", "learn", "closed", "unseen", "fresh", "third_learn", "third_closed", "fourth_closed"
]
Section = Literal["build", "binding", "run", "mismatch", "right"]
HALVES: tuple[Half, ...] = get_args(Half)
SECTIONS: tuple[Section, ...] = get_args(Section)
_KIND = re.compile(r"`([a-z0-9]+(?:-[a-z0-9]+)+|timeout|deadlock)`")
_CLAIMS_NOTHING = "### Kinds that claim no cause"


class Fault(BaseModel):
    """One of two faults in one answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    causes: tuple[str, ...] = Field(min_length=1)
    says: tuple[str, ...] = Field(min_length=1)

    def is_said(self, message: str) -> bool:
        """Whether a message has all that any right wording of this fault has to contain."""
        return all(re.search(words, message, re.IGNORECASE) for words in self.says)


class Case(BaseModel):
    """One answer with its label."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    half: Half
    name: str
    about: str
    section: Section
    problem: str
    causes: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    stage: tuple[str, ...] = ()
    line: str = ""
    sample: bool = False
    timeout_s: float = 30.0

    @model_validator(mode="after")
    def _a_label_is_whole(self) -> Self:
        labelled = self.causes or self.says or self.faults
        if self.correct and (labelled or self.stage or self.line):
            raise ValueError("a right answer has no cause")
        if self.faults and (self.causes or self.says or len(self.faults) != 2):
            raise ValueError("faults are two, in the place of causes and says")
        if not self.correct and not self.faults and not (self.causes and self.says):
            raise ValueError("a wrong answer names causes and says, or two faults")
        if not self.correct and not self.stage:
            raise ValueError("a wrong answer names its stage")
        return self

    def __str__(self) -> str:
        return f"{self.half}/{self.name}"

    @property
    def correct(self) -> bool:
        return self.section == "right"

    @property
    def wrong_by(self) -> tuple[Fault, ...]:
        """What is wrong with it: one fault, or two."""
        return self.faults or ((Fault(causes=self.causes, says=self.says),) if self.causes else ())

    @property
    def key(self) -> tuple[str, str]:
        """What a score is kept under: half and name."""
        return self.half, self.name

    @property
    def path(self) -> Path:
        return CORPUS / self.half / f"{self.name}.py"

    @property
    def source(self) -> str:
        """The candidate without its label."""
        return _split(self.path.read_text(encoding="utf-8"))[1]

    @property
    def address(self) -> str:
        """The reference, as PROBLEM of a command."""
        own = PROBLEMS / f"{self.problem}.py"
        return str(own) if own.is_file() else self.problem

    @property
    def digest(self) -> str:
        """Of the file with its label and of the reference: a recorded score is one on these."""
        reference = Path(self.address).read_text() if self.address.endswith(".py") else self.problem
        text = self.path.read_text(encoding="utf-8")
        return hashlib.sha256("\0".join((text, reference)).encode()).hexdigest()[:16]


@cache
def cases() -> tuple[Case, ...]:
    """All of them, half by half, in alphabetical order."""
    return tuple(_read(path, half) for half in HALVES for path in sorted((CORPUS / half).glob("*.py")))


def half_of(name: str) -> Literal["learn", "closed"]:
    """`learn` or `closed`, of the second set and of the third: the name alone decides, nobody chooses."""
    return "closed" if int(hashlib.sha256(name.encode()).hexdigest()[0], 16) % 2 == 0 else "learn"


@cache
def kinds() -> frozenset[str]:
    """Every stable identifier that a headline may have."""
    return frozenset(_KIND.findall(_vocabulary()))


@cache
def unsure_kinds() -> frozenset[str]:
    """Those that claim no cause."""
    return frozenset(_KIND.findall(_vocabulary().partition(_CLAIMS_NOTHING)[2]))


def _vocabulary() -> str:
    rows = (CORPUS / "README.md").read_text(encoding="utf-8").partition("## The kinds")[2].splitlines()
    first_cells = (row.split("|")[1] if row.startswith("| `") else row for row in rows)
    return "\n".join(cell for cell in first_cells if cell.startswith(("#", " `")))


def _read(path: Path, half: str) -> Case:
    heading: dict[str, Any] = tomllib.loads(_split(path.read_text(encoding="utf-8"))[0])
    return Case(half=half, name=path.stem, **heading)


def _split(text: str) -> tuple[str, str]:
    """Heading and candidate; the empty line between them is in neither."""
    heading, between, candidate = text.partition("\n\n")
    lines = heading.splitlines()
    if not between or not all(line.startswith("# ") for line in lines):
        raise ValueError("a case begins with a heading of `# ` lines and an empty line")
    return "\n".join(line.removeprefix("# ") for line in lines), candidate
