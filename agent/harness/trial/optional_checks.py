"""Optional checks that a user requests beyond the protocol: gradients, torch.compile, other ranks.

Each check has findings of its own. The oracle compares gradients and outputs by the rule for outputs
(`agent.harness.truth.tolerance`). Torch, in the candidate's process, reports whether torch.compile traces all
of forward and opcheck accepts its operators. These reports can refuse a candidate, but never verify one,
since it may have tampered with its process. A backward may consist of torch's operators, as the evidence
for own kernels covers forward only.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import instance, to_oracle, to_worker
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task import faults
from agent.harness.task.faults import Refused
from agent.harness.task.job import Announce, Job, secret_seed
from agent.harness.trial.worker_client import WorkerClient
from agent.harness.worker import worker_commands
from agent.records import Finding, Location, Request, Status

GRADIENT_DRAWS = (None, "shifted", None, "sparse")
"""Families of inputs on which gradients are checked, with a new instance for each."""
_USER_LINE = re.compile(r'candidate\.py", line (\d{1,9})')
_NO_FORMULA = "no autograd formula was registered"
"""Torch's message for an operator of the candidate that has no backward."""
REGISTER = (
    "call the kernel through an operator of your own: torch.library.custom_op and its register_fake, or "
    "TORCH_LIBRARY with a Meta implementation"
)
DETACHED = Finding(
    kind="no-backward",
    message="Training is not supported: no gradient goes back through the output, though inputs or "
    "parameters require one. Wrap the kernels in a torch.autograd.Function with a backward, or register one.",
)


def judge(job: Job, candidate: WorkerClient, oracle: OracleClient, announce: Announce) -> Iterator[str]:
    """Check every request of the job, and yield the scope's notes on skipped parts. Raises Refused."""
    checks: dict[Request, Callable[[Job, WorkerClient, OracleClient], Iterator[str]]] = {
        "backward": _backward, "compile-safe": _compile_safe, "any-rank": _any_rank,
    }  # fmt: skip
    for request in job.requests:
        if request in checks:  # `confirmed` asks for a second look
            announce(f"checking {request}")
            yield from checks[request](job, candidate, oracle)


def _backward(job: Job, candidate: WorkerClient, oracle: OracleClient) -> Iterator[str]:
    for number, family in enumerate(GRADIENT_DRAWS):
        stem = f"gradients{number}"
        _instance(candidate, oracle, stem)
        drawn = oracle.ask(_draw(stem, family))
        if "left_out" in drawn:
            continue
        asked = oracle.ask(to_oracle(oracle_commands.Gradients(secret_seed(), f"{stem}-upstream")))
        if "none" in asked:
            yield f"backward: {asked['none']}"
            return
        command = worker_commands.Beside(
            "gradients", drawn["inputs"], f"{stem}-out", checked=number == 0 and not job.unchecked,
            upstream=asked["upstream"], wanted=asked["wanted"],
        )  # fmt: skip
        doing = "running forward and backward"
        answer = candidate.tell(to_worker(command), doing)
        if answer.get("gradients", ...) is None or _NO_FORMULA in str(answer.get("error")):
            raise Refused(Status.INCORRECT, "verify", [DETACHED])
        candidate.check(answer, "verify", f"{doing} failed")
        _compare(oracle, answer, f"{stem}-out", "With gradients recorded: ")
        gradients = described(answer, "gradients", f"{stem}-out-gradients")
        _refuse_wrong(oracle.weigh(to_oracle(oracle_commands.JudgeGradients(gradients))), "")


def _compile_safe(job: Job, candidate: WorkerClient, oracle: OracleClient) -> Iterator[str]:
    _instance(candidate, oracle, "traced")
    drawn = oracle.ask(_draw("traced"))
    command = worker_commands.Beside("operators", drawn["inputs"])
    answer = candidate.tell(to_worker(command), "running torch.library.opcheck")
    candidate.check(answer, "verify", "torch.library.opcheck failed")
    for operator, why in _pairs(answer["refused"]):
        _refuse(
            "opcheck-failed",
            f"torch.library.opcheck refuses the operator {operator}: {_first_line(why)}",
            evidence=why[-3_000:],
        )
    for operator, why in _pairs(answer["unchecked"]):
        yield f"opcheck of {operator}: {why}"
    command = worker_commands.Beside("traced", drawn["inputs"], "traced-out")
    answer = candidate.tell(to_worker(command), "running under torch.compile")
    candidate.check(answer, "verify", "the call under torch.compile failed")
    if "untraceable" in answer:
        _refuse_untraceable(answer["untraceable"], job.candidate.source)
    _compare(oracle, answer, "traced-out", "Under torch.compile: ")


def _any_rank(job: Job, candidate: WorkerClient, oracle: OracleClient) -> Iterator[str]:
    _instance(candidate, oracle, "ranks")
    asked = oracle_commands.Variants(secret_seed(), ["rank", "batch", "size"])
    found = oracle.ask(to_oracle(asked))["variants"]
    if not any(variant["kind"] == "rank" for variant in found):
        yield "any-rank: the reference takes no other rank with these constructor arguments"
    for number, variant in enumerate(found):
        stem = f"rank{number}"
        drawn = oracle.ask(to_oracle(oracle_commands.Variant(number, stem)))
        if "left_out" in drawn:
            continue
        what = f"Inputs of {variant['what']}, which the reference takes: "
        command = worker_commands.Beside(
            "try", drawn["inputs"], f"{stem}-out", not job.unchecked, drawn["layout"]
        )
        try:
            answer = candidate.tell(to_worker(command), f"running forward with {variant['what']}")
            candidate.check(answer, "run", "forward failed")
            _compare(oracle, answer, f"{stem}-out", "")
        except Refused as refused:
            raise _shape_not_supported(refused, what) from None


def _shape_not_supported(refused: Refused, what: str) -> Refused:
    """Return the refusal with a new headline finding that names the inputs (`what`)."""
    cause, *rest = refused.findings
    headline = Finding(
        kind="shape-not-supported",
        message=f"{what}{cause.message}",
        location=cause.location,
        evidence=cause.evidence,
    )
    return Refused(refused.status, refused.stage, [headline, cause, *rest])


def _draw(stem: str, family: str | None = None) -> dict[str, Any]:
    return to_oracle(oracle_commands.Draw(secret_seed(), stem, family, as_files=True))


def _instance(candidate: WorkerClient, oracle: OracleClient, stem: str) -> None:
    manifest = oracle.ask(to_oracle(oracle_commands.Parameters(secret_seed(), f"{stem}-set")))
    answer = candidate.tell(instance(manifest), "creating ModelNew")
    candidate.check(answer, "run", "creating ModelNew failed")


def _compare(oracle: OracleClient, answer: dict[str, Any], stem: str, when: str) -> None:
    _refuse_wrong(
        oracle.weigh(to_oracle(oracle_commands.CompareFiles(described(answer, "outputs", stem)))), when
    )


def _refuse_wrong(verdict: dict[str, Any], when: str) -> None:
    if "finding" in verdict:
        found = Finding.model_validate(verdict["finding"])
        found = found.model_copy(update={"message": f"{when}{found.message}"})
        raise Refused(Status.INCORRECT, "verify", [found])


def described(answer: dict[str, Any], key: str, stem: str) -> dict[str, Any]:
    """Return the answer's description of the tensors under `key`.

    Raises Refused if their files do not begin with `stem`.
    """
    description = answer.get(key)
    if not isinstance(description, dict) or description.get("stem") != stem:
        raise Refused(Status.REJECTED, "verify", [faults.protocol_violation()])
    return description


def _refuse_untraceable(error: Any, source: str) -> NoReturn:
    text = str(error)
    lines = [int(number) for number in _USER_LINE.findall(text)]
    line = lines[-1] if lines and lines[-1] <= len(source.splitlines()) else None
    where = Location(line=line, text=source.splitlines()[line - 1].strip()) if line else None
    _refuse(
        "graph-break",
        f"torch.compile(fullgraph=True) cannot trace forward: {_first_line(text)}; {REGISTER}.",
        location=where,
        evidence=text[-3_000:],
    )


def _refuse(kind: str, message: str, **more: Any) -> NoReturn:
    raise Refused(Status.INCORRECT, "verify", [Finding(kind=kind, message=message, **more)])


def _pairs(claims: list[list[str]]) -> Iterator[tuple[str, str]]:
    for operator, why in claims:
        yield operator[:200], why


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300].rstrip(".")
