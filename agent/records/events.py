"""Events of a transcript, one per line."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from agent.records.base import SCHEMA_VERSION, Record
from agent.records.evaluation import Attempt, Candidate, Evaluation, Feedback
from agent.records.exchange import Completion, Prompt
from agent.records.problem import Problem
from agent.records.search import Move, Spent


class EventBase(Record):
    schema_version: int = SCHEMA_VERSION
    seq: int = 0
    """Position in the file, counted from 0; the store sets it."""
    time: datetime | None = None
    """UTC; the store sets it."""


class RunStarted(EventBase):
    kind: Literal["run_started"] = "run_started"
    problem: Problem
    provider: str
    executor: str
    rounds: int
    patience: int
    search: str = "line"
    """Policy that chooses the next prompt."""


class Prompted(EventBase):
    kind: Literal["prompted"] = "prompted"
    round: int
    prompt: Prompt
    move: Move = Move()
    """Move that the policy chose."""
    seconds: float | None = None
    """Seconds that the run had taken by then, over all its processes."""


class Completed(EventBase):
    """An answer of the provider. It counts as received when this event is on disk."""

    kind: Literal["completed"] = "completed"
    round: int
    prompt_id: str
    completion: Completion


class ReplyRejected(EventBase):
    """An answer without usable code. The round is spent."""

    kind: Literal["reply_rejected"] = "reply_rejected"
    round: int
    feedback: Feedback
    candidate: str | None = None
    """Id of the candidate in the answer, if only a build showed that its program was judged before."""
    program: str | None = None
    """Program that was built then (`Build.program`)."""


class Evaluated(EventBase):
    kind: Literal["evaluated"] = "evaluated"
    round: int
    attempt: Attempt
    seconds: float | None = None


class Unjudged(EventBase):
    """A candidate that could not be judged: a fault of ours or of this machine.

    It is told to no model, remembered as nobody's mistake, and has no verdict.
    """

    kind: Literal["unjudged"] = "unjudged"
    round: int
    number: int = Field(ge=1)
    """Its place among the attempts; no other attempt has it."""
    candidate: Candidate
    reason: str
    """The fault in one line."""
    details: str = ""
    """The traceback, or the last words of the process that failed."""
    seconds: float | None = None
    then: Literal["again", "unspent", "spent"] = "spent"
    """Consequence: `again`, the candidate is judged once more; `unspent`, the round does not count and is
    asked again; `spent`, the round counts, because its answer has a verdict and this is a mend of it. Before
    schema version 7 every such round counted."""


class SecondLook(EventBase):
    """A finished second look at a verified attempt. Its verdict replaces the attempt's from here on.

    A second look that refuses withdraws what the first look had verified. Its findings say why.
    """

    kind: Literal["second_look"] = "second_look"
    round: int
    """That of the attempt."""
    number: int = Field(ge=1)
    """Number of the attempt."""
    evaluation: Evaluation
    seconds: float | None = None

    @property
    def outcome(self) -> Literal["confirmed", "doubtful", "withdrawn"]:
        if self.evaluation.withdrawn:
            return "withdrawn"
        return "doubtful" if self.evaluation.scope.doubt else "confirmed"


class Unconfirmed(EventBase):
    """A second look that could not be made, through a fault of ours or of this machine.

    The first verdict stands, unconfirmed, and the look is made again before the run ends.
    """

    kind: Literal["unconfirmed"] = "unconfirmed"
    round: int
    """That of the attempt."""
    number: int = Field(ge=1)
    """Number of the attempt."""
    reason: str
    """The fault in one line."""
    details: str = ""
    """The traceback, or the last words of the process that failed."""
    seconds: float | None = None


class RetryScheduled(EventBase):
    """The endpoint failed and will be asked again; never shown to the model."""

    kind: Literal["retry_scheduled"] = "retry_scheduled"
    reason: str
    wait_seconds: float
    tries: int
    round: int | None = None
    """Round of the question; None before schema version 5, which had one open question at a time."""
    begun: bool = False
    """True if an answer may have begun, which has to be paid for."""


class RunFinished(EventBase):
    kind: Literal["run_finished"] = "run_finished"
    outcome: Literal["verified", "no_kernel", "budget", "interrupted", "failed"]
    best: int | None
    """Number of the best verified attempt."""
    reason: str
    spent: Spent | None = None


Event = Annotated[
    RunStarted
    | Prompted
    | Completed
    | ReplyRejected
    | Evaluated
    | Unjudged
    | SecondLook
    | Unconfirmed
    | RetryScheduled
    | RunFinished,
    Field(discriminator="kind"),
]
EVENT: TypeAdapter[Event] = TypeAdapter(Event)
