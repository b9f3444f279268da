"""Upgrade of documents of earlier schema versions, with one plain function per step.

    1   first release
    2   optional fields: measurements of GPU runs (profile, card, intervals), how a problem was admitted,
        what a candidate handles beyond the stated inputs, what was requested, where an output is wrong;
        the stage `integrity`, the baseline `graph`
    3   event `unjudged`; in a scope, the parameters with other names; the field `lane` of a build, which
        says what built an extension, renamed to `backend`
    4   events `second_look` and `unconfirmed`; in a scope, whether a second look confirmed the verdict.
        Before, the second look was made together with the first look, or not at all
    5   in a prompt, the rounds that it continues and when it was asked; in a candidate, a second parent; in
        a retry, its round; in a run, its policy and spending; in an answer, the model that was asked and the
        tokens from the endpoint's cache
    6   in a build, the program that was made; in an answer without a candidate, that it was built to the
        program of an earlier one; in a measurement, the launches of torch.compile; in a prompt, whether it
        asks for ideas
    7   in `unjudged`, what the run does next

Files are never rewritten: every read passes through these functions.
"""

from collections.abc import Callable
from typing import Any

from agent.records import SCHEMA_VERSION

Document = dict[str, Any]


class NewerVersion(ValueError):
    """Error for a document that a later version wrote; the message names the version."""


def upgrade(document: Document) -> Document:
    """Return an event or a run.toml in the current schema version. Raises NewerVersion."""
    version = document.get("schema_version")
    if not isinstance(version, int):
        return document
    if version > SCHEMA_VERSION:
        raise NewerVersion(f"written by a newer version (schema {version}, this one reads {SCHEMA_VERSION})")
    for step in _STEPS[max(version, 1) - 1 :]:
        document = step(document)
    return document


def _from_1(document: Document) -> Document:
    """Upgrade to version 2, which only added fields. Values that a run did not record stay unknown."""
    return _numbered(document, 2)


def _from_2(document: Document) -> Document:
    """Upgrade to version 3, which added an event and renamed a build's `lane` to `backend`.

    The event is `unjudged`. Before, the fault that it records ended the run.
    """
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
    """Upgrade to version 4, which added events and a field.

    Earlier verdicts do not say whether they rest on a second look.
    """
    return _numbered(document, 4)


def _from_4(document: Document) -> Document:
    """Upgrade to version 5, which made searches trees. Earlier runs are one line of consecutive rounds."""
    document = _numbered(document, 5)
    if document.get("kind") == "prompted":
        number = document.get("round")
        before = number - 1 if isinstance(number, int) and number > 1 else None
        document = document | {"move": {"after": before}}
    return document


def _from_5(document: Document) -> Document:
    """Upgrade to version 6, which only added fields."""
    return _numbered(document, 6)


def _from_6(document: Document) -> Document:
    """Upgrade to version 7, which no longer counts a round whose candidate could not be judged.

    Before, such a round counted as spent.
    """
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
