"""Search for the cause of a wrong output, by questions to the oracle and further calls of the candidate.

If no cause is found and kernels can be replayed, the oracle gets the values that each kernel wrote. A
diagnosis changes no verdict, so a failure of the search leaves the finding unchanged.
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
"""Families of inputs that tell similar faults apart, in order of use; `faint` reveals a wrong eps."""
NOT_FOLLOWED = (Forged, Forgery, NotLoadable, Unrepeatable, EnvironmentFault, ProblemError)
"""Errors that keep a call from being replayed, all ignored, as the verdict already stands."""
EXPLAINED = frozenset(
    {"wrong-values", "precision-loss", "constant-output", "nan-output", "non-finite-output", "wrong-shape"}
)


def picture(oracle: OracleClient) -> MismatchMap | None:
    """Return a map of the errors in the last judged outputs, or None if the oracle has none."""
    try:
        drawn = oracle.attempt(to_oracle(oracle_commands.Map())).get("map")
    except ChildFault:
        return None
    return MismatchMap.model_validate(drawn) if drawn else None


class Diagnosed(NamedTuple):
    """Candidate whose outputs were judged last, for further calls and a replay."""

    job: Job
    """Job, used for the candidate's source and for the time limit of each further call."""
    process: WorkerClient
    followed: Callable[[], where_commands.Where | None]
    """Function that replays the call judged last and returns the writes of its kernels; None if it cannot."""

    def call(self, command: dict[str, Any]) -> dict[str, Any]:
        return self.process.ask(command, self.job.candidate_timeout_s)


def cause(found: Finding, candidate: Diagnosed, oracle: OracleClient) -> Finding:
    """Return `found`, a finding on the last judged outputs, with its cause."""
    if found.kind not in EXPLAINED:
        return found
    command = oracle_commands.Explain(candidate.job.candidate.source, found.model_dump(mode="json"))
    answer: dict[str, Any] = {}
    try:
        answer = _seen(oracle.attempt(to_oracle(command)), candidate, oracle)
        # An uncertain cause is first tried on the inputs that the problem states.
        for number, family in enumerate((None, *FAMILIES) if answer.get("unconfirmed") else FAMILIES):
            if not answer.get("open"):
                break
            answer = _asked_again(answer, f"why{number}", family, oracle, candidate.call)
    except ChildFault:
        pass
    return Finding.model_validate(answer["finding"]) if "finding" in answer else found


def _seen(answer: dict[str, Any], candidate: Diagnosed, oracle: OracleClient) -> dict[str, Any]:
    """Return the answer, refined with the values that the kernels wrote if it names no cause."""
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
    """Return the answer narrowed by the outputs of one more draw, or unchanged if that fails."""
    seed = secrets.randbits(62)
    drawn = oracle.attempt(to_oracle(oracle_commands.Draw(seed, stem, family)))
    if "left_out" in drawn or "error" in drawn:
        return answer
    outputs = called(call(drawn, f"{stem}-out", send_back=f"{stem}-after")).get("outputs")
    if not isinstance(outputs, dict):
        return answer
    narrowed = oracle.attempt(to_oracle(oracle_commands.Narrow(outputs)))
    return narrowed if "finding" in narrowed else answer
