"""Documents of earlier schema versions in today's shape: one plain function per step, from the oldest on.

    1   the first release
    2   optional fields: what GPU runs measured (profile, card, intervals), how a problem was admitted, what
        else a candidate handles, what was requested, where an output is wrong; the stage `integrity`,
        the baseline `graph`
    3   the event `unjudged`; in a scope, the parameters that have other names; what built an extension is its
        `backend`, which was its `lane`
    4   the events `second_look` and `unconfirmed`; in a scope, whether a second look confirmed the verdict,
        which before was made together with the first, or not at all
    5   of a prompt, which rounds it goes on from and when it was asked; of a candidate, a second parent; of a
        retry, its round; of a run, its policy and what it spent; of an answer, the model that was asked and
        the tokens that came from the endpoint's cache
    6   of a build, which program was made; of an answer without a candidate, that it was built and is the
        program of an earlier one; of a measurement, what torch.compile launches; of a
        prompt, whether it asks for ideas
    7   of a candidate that could not be judged, what follows

Files are never rewritten: they are read through these functions each time.
"""

from collections.abc import Callable
from typing import Any

from agent.records import SCHEMA_VERSION

Document = dict[str, Any]


class NewerVersion(ValueError):
    """A document that a later version wrote; the message says which."""


def upgrade(document: Document) -> Document:
    """An event or a run.toml as the present version would have written it. Raises NewerVersion."""
    version = document.get("schema_version")
    if not isinstance(version, int):
        return document
    if version > SCHEMA_VERSION:
        raise NewerVersion(f"written by a newer version (schema {version}, this one reads {SCHEMA_VERSION})")
    for step in _STEPS[max(version, 1) - 1 :]:
        document = step(document)
    return document


def _from_1(document: Document) -> Document:
    """Version 2 only added fields; what a run did not record stays unknown."""
    return _numbered(document, 2)


def _from_2(document: Document) -> Document:
    """Version 3 added an event (before, such a fault ended the run) and named a build's lane its backend."""
    document = _numbered(document, 3)
    attempt = document.get("attempt")
    evaluation = attempt.get("evaluation") if isinstance(attempt, dict) else None
    build = evaluation.get("build") if isinstance(evaluation, dict) else None
    if (
        isinstance(attempt, dict)
        and isinstance(evaluation, dict)
        and isinstance(build, dict)
        and "lane" in build
    ):
        renamed = {"backend" if key == "lane" else key: value for key, value in build.items()}
        document["attempt"] = attempt | {"evaluation": evaluation | {"build": renamed}}
    return document


def _from_3(document: Document) -> Document:
    """Version 4 added events and a field; of a verdict before it nothing says how many looks it rests on."""
    return _numbered(document, 4)


def _from_4(document: Document) -> Document:
    """Version 5 made searches trees; a run before it is one line, each round after the one before."""
    document = _numbered(document, 5)
    if document.get("kind") == "prompted":
        number = document.get("round")
        before = number - 1 if isinstance(number, int) and number > 1 else None
        document = document | {"move": {"after": before}}
    return document


def _from_5(document: Document) -> Document:
    """Version 6 only added fields."""
    return _numbered(document, 6)


def _from_6(document: Document) -> Document:
    """Version 7 gave rounds back in which a candidate could not be judged; before they counted as spent."""
    return _numbered(document, 7)


def _numbered(document: Document, version: int) -> Document:
    document = document | {"schema_version": version}
    attempt = document.get("attempt")
    if isinstance(attempt, dict) and isinstance(attempt.get("evaluation"), dict):
        evaluation = attempt["evaluation"] | {"schema_version": version}
        document["attempt"] = attempt | {"evaluation": evaluation}
    return document


_STEPS: tuple[Callable[[Document], Document], ...] = (
    _from_1, _from_2, _from_3, _from_4, _from_5, _from_6,
)  # fmt: skip
