"""Asks the oracle why an output is wrong, and the candidate once more where that leaves several answers.

Where no cause is found and kernels can be repeated, the oracle is shown what each of them wrote.

A diagnosis changes no verdict, so that whatever goes wrong here leaves the finding as it was.
"""

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

from agent.emulator.replay.device_library import NotLoadable
from agent.emulator.replay.events import Forged
from agent.errors import EnvironmentFault, ProblemError
from agent.harness.integrity.replay_check import Forgery, Unrepeatable
from agent.harness.messages import oracle_commands, where_commands
from agent.harness.messages.commands import call, to_oracle
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task.job import Job
from agent.harness.trial.worker_client import WorkerClient
from agent.records import Finding, MismatchMap
from agent.sandbox import ChildFault

Call = Callable[[dict[str, Any]], dict[str, Any]]
FAMILIES = ("faint", "scaled", "negated", None)
"""Inputs that tell alike faults apart, in the order they are tried: eps shows in faint ones."""
NOT_FOLLOWED = (Forged, Forgery, NotLoadable, Unrepeatable, EnvironmentFault, ProblemError)
"""What keeps a call from being repeated, whosever fault it is: the verdict stands already."""
EXPLAINED = frozenset(
    {"wrong-values", "precision-loss", "constant-output", "nan-output", "non-finite-output", "wrong-shape"}
)


def picture(oracle: OracleClient) -> MismatchMap | None:
    """Where the outputs judged last are wrong; None where their structure is, or where it cannot be had."""
    try:
        drawn = oracle.attempt(to_oracle(oracle_commands.Map())).get("map")
    except ChildFault:
        return None
    return MismatchMap.model_validate(drawn) if drawn else None


class Diagnosed(NamedTuple):
    """The candidate whose outputs were judged last."""

    job: Job
    """Its source is only read, and its limit is that of each further call."""
    process: WorkerClient
    followed: Callable[[], where_commands.Where | None]
    """Repeats the call."""

    def call(self, command: dict[str, Any]) -> dict[str, Any]:
        return self.process.ask(command, self.job.candidate_timeout_s)


def cause(found: Finding, candidate: Diagnosed, oracle: OracleClient) -> Finding:
    """`found`, of the outputs judged last, with its cause."""
    if found.kind not in EXPLAINED:
        return found
    command = oracle_commands.Explain(candidate.job.candidate.source, found.model_dump(mode="json"))
    answer: dict[str, Any] = {}
    try:
        answer = _seen(oracle.attempt(to_oracle(command)), candidate, oracle)
        # What may be chance is tried on the inputs that the problem states first.
        for number, family in enumerate((None, *FAMILIES) if answer.get("unconfirmed") else FAMILIES):
            if not answer.get("open"):
                break
            answer = _asked_again(answer, f"why{number}", family, oracle, candidate.call)
    except ChildFault:
        pass
    return Finding.model_validate(answer["finding"]) if "finding" in answer else found


def _seen(answer: dict[str, Any], candidate: Diagnosed, oracle: OracleClient) -> dict[str, Any]:
    """The answer with what the kernels wrote, where no cause is named; else as it was."""
    if answer.get("named", True):
        return answer
    try:
        where = candidate.followed()
    except NOT_FOLLOWED:
        where = None
    told = oracle.attempt(to_oracle(where)) if where is not None else {}
    return told if "finding" in told else answer


def _asked_again(
    answer: dict[str, Any], stem: str, family: str | None, oracle: OracleClient, called: Call
) -> dict[str, Any]:
    """The answer with fewer explanations open, by another draw; as it was where that cannot be had."""
    seed = secrets.randbits(62)
    drawn = oracle.attempt(to_oracle(oracle_commands.Draw(seed, stem, family)))
    if "left_out" in drawn or "error" in drawn:
        return answer
    outputs = called(call(drawn, f"{stem}-out", send_back=f"{stem}-after")).get("outputs")
    if not isinstance(outputs, dict):
        return answer
    narrowed = oracle.attempt(to_oracle(oracle_commands.Narrow(outputs)))
    return narrowed if "finding" in narrowed else answer
