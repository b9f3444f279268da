"""Asks the oracle why an output is wrong, and the candidate once more where that leaves several answers.

A diagnosis changes no verdict, so that whatever goes wrong here leaves the finding as it was.
"""

import secrets
from collections.abc import Callable
from typing import Any

from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import call, to_oracle
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task.job import Job
from agent.harness.trial.worker_client import WorkerClient
from agent.records import Finding, MismatchMap
from agent.sandbox import ChildFault

Call = Callable[[dict[str, Any]], dict[str, Any]]
FAMILIES = ("faint", "scaled", "negated", None)
"""Inputs that tell alike faults apart, in the order they are tried: eps shows in faint ones."""
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


def cause(found: Finding, job: Job, candidate: WorkerClient, oracle: OracleClient) -> Finding:
    """`found`, of the outputs judged last, with its cause. The candidate's source is only read, and the limit
    of the job that of each further call.
    """
    if found.kind not in EXPLAINED:
        return found

    def called(command: dict[str, Any]) -> dict[str, Any]:
        return candidate.ask(command, job.candidate_timeout_s)

    command = oracle_commands.Explain(job.candidate.source, found.model_dump(mode="json"))
    answer: dict[str, Any] = {}
    try:
        answer = oracle.attempt(to_oracle(command))
        # What may be chance is tried on the inputs that the problem states first.
        for number, family in enumerate((None, *FAMILIES) if answer.get("unconfirmed") else FAMILIES):
            if not answer.get("open"):
                break
            answer = _asked_again(answer, f"why{number}", family, oracle, called)
    except ChildFault:
        pass
    return Finding.model_validate(answer["finding"]) if "finding" in answer else found


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
