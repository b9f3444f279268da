"""Messages between the head and the judges of a cluster, sent as texts that Ray does not interpret."""

from typing import Literal

from agent.api.service import About, Answer, Asked
from agent.records import Record


class Plan(Record):
    """Judging configuration shared by every judge of a cluster."""

    executor: Literal["cuda", "emulator"]
    flags: dict[str, object] = {}
    """Settings by name, never a secret."""


class Hello(Record):
    """First message of a judge's process: what it judges on, or why it cannot judge."""

    about: About | None = None
    verifier: str = ""
    unfit: str = ""
    """Reason why the process cannot judge; if set, no other message follows."""


class Order(Record):
    """One job for a judge: its name and the request."""

    name: str
    asked: Asked


class Reply(Record):
    """Result of an order: an answer, or the reason why there is none."""

    answer: Answer | None = None
    unfit: str = ""
    """Reason why no process at this place can judge."""
    died: str = ""
    """Reason why the process ended without an answer."""
