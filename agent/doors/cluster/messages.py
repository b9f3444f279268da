"""What the head and the judges of a cluster say to each other, in texts: Ray interprets nothing."""

from typing import Literal

from agent.api.service import About, Answer, Asked
from agent.records import Record


class Plan(Record):
    """How every judge of a cluster judges."""

    executor: Literal["cuda", "emulator"]
    flags: dict[str, object] = {}
    """Settings by name. Never a secret."""


class Hello(Record):
    """What a judge's process says first."""

    about: About | None = None
    verifier: str = ""
    unfit: str = ""
    """Why it cannot judge; then it says nothing more."""


class Order(Record):
    """One job."""

    name: str
    asked: Asked


class Reply(Record):
    """What has come of an order."""

    answer: Answer | None = None
    unfit: str = ""
    """Why no process can judge there."""
    died: str = ""
    """How the process ended that should have answered."""
