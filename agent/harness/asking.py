"""Asks the oracle why an output is wrong, and the candidate once more where that leaves several answers.

A diagnosis changes no verdict, so that whatever goes wrong here leaves the finding as it was.
"""

import secrets
from collections.abc import Callable
from typing import Any

from agent.harness.job import ORACLE_LIMIT_S, Job
from agent.records import Finding, MismatchMap
from agent.sandbox import Child, ChildFault

Serve = Callable[[dict[str, Any]], dict[str, Any]]
FAMILIES = ("faint", "scaled", "negated", None)
"""Inputs that tell alike faults apart, in the order they are tried: eps shows in faint ones."""
EXPLAINED = frozenset(
    {"wrong-values", "precision-loss", "constant-output", "nan-output", "non-finite-output", "wrong-shape"}
)


def picture(oracle: Child) -> MismatchMap | None:
    """Where the outputs judged last are wrong; None where their structure is, or where it cannot be had."""
    try:
        drawn = oracle.ask({"do": "map"}, ORACLE_LIMIT_S).get("map")
    except ChildFault:
        return None
    return MismatchMap.model_validate(drawn) if drawn else None


def cause(found: Finding, job: Job, oracle: Child, candidate: Child, serve: Serve) -> Finding:
    """`found`, of the outputs judged last, with its cause. The candidate's source is only read."""
    if found.kind not in EXPLAINED:
        return found

    def consulted(command: dict[str, Any]) -> dict[str, Any]:
        return oracle.ask(command, ORACLE_LIMIT_S)

    def called(command: dict[str, Any]) -> dict[str, Any]:
        return candidate.ask(command, job.candidate_timeout_s, serve)

    command = {"do": "explain", "source": job.candidate.source, "finding": found.model_dump(mode="json")}
    answer: dict[str, Any] = {}
    try:
        answer = consulted(command)
        for number, family in enumerate(FAMILIES):
            if not answer.get("open"):
                break
            answer = _asked_again(answer, f"why{number}", family, consulted, called)
    except ChildFault:
        pass
    return Finding.model_validate(answer["finding"]) if "finding" in answer else found


def _asked_again(
    answer: dict[str, Any], stem: str, family: str | None, consulted: Serve, called: Serve
) -> dict[str, Any]:
    """The answer with fewer explanations open, by another draw; as it was where that cannot be had."""
    seed = secrets.randbits(62)
    drawn = consulted({"do": "draw", "seed": seed, "stem": stem, "family": family, "in_place": False})
    if "left_out" in drawn or "error" in drawn:
        return answer
    call = {
        "do": "call",
        "stem": f"{stem}-out",
        "send_back": f"{stem}-after",
        "checked": False,
        "keep_all": False,
    }
    outputs = called(drawn | call).get("outputs")
    if not isinstance(outputs, dict):
        return answer
    narrowed = consulted({"do": "narrow", "outputs": outputs})
    return narrowed if "finding" in narrowed else answer
