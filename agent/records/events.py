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
    """Position of the event in the transcript, counted from 0; set by the store."""
    time: datetime | None = None
    """Time of the event in UTC; set by the store."""


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
    """Wall-clock seconds that the run had taken when the prompt was sent, over all its processes."""


class Completed(EventBase):
    """Answer of the provider. An answer counts as received when this event is on disk."""

    kind: Literal["completed"] = "completed"
    round: int
    prompt_id: str
    completion: Completion


class ReplyRejected(EventBase):
    """Answer without usable code. The round counts as spent."""

    kind: Literal["reply_rejected"] = "reply_rejected"
    round: int
    feedback: Feedback
    candidate: str | None = None
    """Id of the answer's candidate, if only a build showed that the same program had been judged before."""
    program: str | None = None
    """Hash of that candidate's built program (`Build.program`)."""


class Evaluated(EventBase):
    kind: Literal["evaluated"] = "evaluated"
    round: int
    attempt: Attempt
    seconds: float | None = None


class Unjudged(EventBase):
    """Candidate that could not be judged, because of a fault in Kernelwright or on the machine.

    The candidate has no verdict, the model is not told about it, and it does not count as a mistake.
    """

    kind: Literal["unjudged"] = "unjudged"
    round: int
    number: int = Field(ge=1)
    """Attempt number of the candidate; no other attempt has this number."""
    candidate: Candidate
    reason: str
    """Reason in one line, which names the fault."""
    details: str = ""
    """Traceback, or the last output of the failed process."""
    seconds: float | None = None
    then: Literal["again", "unspent", "spent"] = "spent"
    """Consequence. `again`: the candidate is judged once more. `unspent`: the round does not count and its
    question is asked again. `spent`: the round counts, because its answer has a verdict and this candidate is
    a mend of that answer. Before schema version 7 the round of an unjudged candidate always counted."""


class SecondLook(EventBase):
    """Finished second look at a verified attempt. Its verdict replaces the attempt's from here on.

    A second look that refuses the candidate withdraws the first verdict, and its findings give the reason.
    """

    kind: Literal["second_look"] = "second_look"
    round: int
    """Round of the attempt."""
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
    """Second look that could not be made, because of a fault in Kernelwright or on the machine.

    The first verdict stands, unconfirmed, and the second look is repeated before the run ends.
    """

    kind: Literal["unconfirmed"] = "unconfirmed"
    round: int
    """Round of the attempt."""
    number: int = Field(ge=1)
    """Number of the attempt."""
    reason: str
    """Reason in one line, which names the fault."""
    details: str = ""
    """Traceback, or the last output of the failed process."""
    seconds: float | None = None


class RetryScheduled(EventBase):
    """Failure of the provider's endpoint, which will be asked again. The model never sees it."""

    kind: Literal["retry_scheduled"] = "retry_scheduled"
    reason: str
    wait_seconds: float
    tries: int
    round: int | None = None
    """Round of the question; None before schema version 5, which had one open question at a time."""
    begun: bool = False
    """True if the endpoint may have begun an answer, which costs money."""


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
