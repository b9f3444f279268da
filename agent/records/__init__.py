"""Records of the pipeline: frozen pydantic models, no torch, no I/O."""

from agent.records.base import SCHEMA_VERSION, Record, digest, misfit
from agent.records.envelope import Envelope, Probe
from agent.records.evaluation import (
    MAY_END_OTHERWISE,
    Admission,
    Attempt,
    Build,
    Candidate,
    Correctness,
    Environment,
    Evaluation,
    Feedback,
    Finding,
    KernelResources,
    LibraryOps,
    Location,
    Origin,
    Profile,
    Severity,
    Stage,
    Status,
)
from agent.records.events import (
    EVENT,
    Completed,
    Evaluated,
    Event,
    Prompted,
    ReplyRejected,
    RetryScheduled,
    RunFinished,
    RunStarted,
    SecondLook,
    Unconfirmed,
    Unjudged,
)
from agent.records.exchange import Completion, Message, Prompt, Usage
from agent.records.measurement import (
    BASELINES,
    Baseline,
    Card,
    KernelTime,
    Measurement,
    MoreBaselines,
    Percentiles,
)
from agent.records.mismatch import Axis, MismatchMap
from agent.records.phase import Phase
from agent.records.problem import Operation, Problem, TensorSpec, Trace
from agent.records.scope import Request, Scope
from agent.records.search import APPROACH, ConfirmPolicy, Move, PolicyName, Spent

__all__ = [
    "APPROACH", "Admission", "Attempt", "Axis", "BASELINES", "Baseline", "Build", "Candidate", "Card",
    "Completed", "Completion", "ConfirmPolicy", "Correctness", "EVENT", "Envelope", "Environment",
    "Evaluated", "Evaluation",
    "Event", "Feedback", "Finding", "KernelResources", "KernelTime", "LibraryOps", "Location",
    "MAY_END_OTHERWISE",
    "Measurement", "Message", "MismatchMap", "MoreBaselines", "Move", "Operation", "Origin", "Percentiles",
    "Phase", "PolicyName",
    "Probe", "Problem", "Profile", "Prompt", "Prompted", "Record", "ReplyRejected", "Request",
    "RetryScheduled", "RunFinished", "RunStarted", "SCHEMA_VERSION", "Scope", "SecondLook",
    "Severity", "Spent", "Stage", "Status", "TensorSpec", "Trace", "Unconfirmed", "Unjudged",
    "Usage", "digest", "misfit",
]  # fmt: skip
