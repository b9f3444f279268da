"""What a user asked for beside the protocol, judged: gradients, torch.compile, other ranks.

Each has findings of its own. The candidate's process answers with bytes, which the oracle compares by the
same rule as outputs (`agent.harness.budget`). That torch.compile traces the whole of forward, and that
opcheck accepts its operators, is what torch says in the candidate's process: it can refuse, and where that
process was tampered with its silence proves nothing.
Own-kernel evidence is about forward; a backward may be made of torch's operators.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from agent.harness import faults
from agent.harness.faults import Refused
from agent.harness.job import Announce, Job, secret_seed
from agent.records import Finding, Location, Request, Status

Ask = Callable[[dict[str, Any]], dict[str, Any]]
GRADIENT_DRAWS = (None, "shifted", None, "sparse")
"""Families of inputs that gradients are asked for on; a new instance for each."""
_USER_LINE = re.compile(r'candidate\.py", line (\d+)')
_NO_FORMULA = "no autograd formula was registered"
"""torch's words for an operator of the candidate's own without a backward."""
REGISTER = (
    "call the kernel through an operator of your own: torch.library.custom_op and its register_fake, or "
    "TORCH_LIBRARY with a Meta implementation"
)
DETACHED = Finding(
    kind="no-backward",
    message="Training is not supported: no gradient goes back through the output, though inputs or "
    "parameters require one. Wrap the kernels in a torch.autograd.Function with a backward, or register one.",
)


class Talk(NamedTuple):
    """How a trial talks to its two processes."""

    tell: Callable[[dict[str, Any], str], dict[str, Any]]
    """Sends the candidate a command; the words say what it is doing. Raises Refused where it dies."""
    check: Callable[[dict[str, Any], faults.Stage, str], None]
    """Raises Refused for what its answer reports."""
    consult: Ask
    """Asks the oracle."""
    weigh: Ask
    """Asks the oracle about something that the candidate's process described."""


def judge(job: Job, talk: Talk, announce: Announce) -> Iterator[str]:
    """Judges every request; yields what could not be checked, for the scope. Raises Refused."""
    checks: dict[Request, Callable[[Job, Talk], Iterator[str]]] = {
        "backward": _backward, "compile-safe": _compile_safe, "any-rank": _any_rank,
    }  # fmt: skip
    for request in job.requests:
        announce(f"checking {request}")
        yield from checks[request](job, talk)


def _backward(job: Job, talk: Talk) -> Iterator[str]:
    for number, family in enumerate(GRADIENT_DRAWS):
        stem = f"gradients{number}"
        _instance(talk, stem)
        drawn = talk.consult(_draw(stem, family))
        if "left_out" in drawn:
            continue
        asked = talk.consult({"do": "gradients", "seed": secret_seed(), "stem": f"{stem}-upstream"})
        if "none" in asked:
            yield f"backward: {asked['none']}"
            return
        command = {
            "do": "beside", "what": "gradients", "inputs": drawn["inputs"], "upstream": asked["upstream"],
            "wanted": asked["wanted"], "stem": f"{stem}-out", "checked": number == 0 and not job.unchecked,
        }  # fmt: skip
        doing = "running forward and backward"
        answer = talk.tell(command, doing)
        if answer.get("gradients", ...) is None or _NO_FORMULA in str(answer.get("error")):
            raise Refused(Status.INCORRECT, "verify", [DETACHED])
        talk.check(answer, "verify", f"{doing} failed")
        _compare(talk, answer, f"{stem}-out", "With gradients recorded: ")
        gradients = described(answer, "gradients", f"{stem}-out-gradients")
        _refuse_wrong(talk.weigh({"do": "judge_gradients", "gradients": gradients}), "")


def _compile_safe(job: Job, talk: Talk) -> Iterator[str]:
    _instance(talk, "traced")
    drawn = talk.consult(_draw("traced"))
    answer = talk.tell(
        {"do": "beside", "what": "operators", "inputs": drawn["inputs"]}, "running torch.library.opcheck"
    )
    talk.check(answer, "verify", "torch.library.opcheck failed")
    for operator, why in _pairs(answer.get("refused")):
        _refuse(
            "opcheck-failed",
            f"torch.library.opcheck refuses the operator {operator}: {_first_line(why)}",
            evidence=why[-3_000:],
        )
    for operator, why in _pairs(answer.get("unchecked")):
        yield f"opcheck of {operator}: {why}"
    command = {"do": "beside", "what": "traced", "inputs": drawn["inputs"], "stem": "traced-out"}
    answer = talk.tell(command, "running under torch.compile")
    talk.check(answer, "verify", "the call under torch.compile failed")
    if "untraceable" in answer:
        _refuse_untraceable(answer["untraceable"], job.candidate.source)
    _compare(talk, answer, "traced-out", "Under torch.compile: ")


def _any_rank(job: Job, talk: Talk) -> Iterator[str]:
    _instance(talk, "ranks")
    command = {"do": "variants", "seed": secret_seed(), "kinds": ["rank", "batch", "size"]}
    found = talk.consult(command)["variants"]
    if not any(variant["kind"] == "rank" for variant in found):
        yield "any-rank: the reference takes no other rank with these constructor arguments"
    for number, variant in enumerate(found):
        stem = f"rank{number}"
        drawn = talk.consult({"do": "variant", "number": number, "stem": stem})
        if "left_out" in drawn:
            continue
        what = f"Inputs of {variant['what']}, which the reference takes: "
        command = {
            "do": "beside",
            "what": "try",
            **drawn,
            "stem": f"{stem}-out",
            "checked": not job.unchecked,
        }
        try:
            answer = talk.tell(command, f"running forward with {variant['what']}")
            talk.check(answer, "run", "forward failed")
            _compare(talk, answer, f"{stem}-out", "")
        except Refused as refused:
            raise _shape_not_supported(refused, what) from None


def _shape_not_supported(refused: Refused, what: str) -> Refused:
    """The same verdict; the headline names the inputs, and its cause stays behind it."""
    cause, *rest = refused.findings
    headline = Finding(
        kind="shape-not-supported",
        message=f"{what}{cause.message}",
        location=cause.location,
        evidence=cause.evidence,
    )
    return Refused(refused.status, refused.stage, [headline, cause, *rest])


def _draw(stem: str, family: str | None = None) -> dict[str, Any]:
    return {"do": "draw", "seed": secret_seed(), "stem": stem, "family": family, "as_files": True}


def _instance(talk: Talk, stem: str) -> None:
    manifest = talk.consult({"do": "parameters", "seed": secret_seed(), "stem": f"{stem}-set"})
    answer = talk.tell({"do": "instance", **manifest}, "creating ModelNew")
    talk.check(answer, "run", "creating ModelNew failed")


def _compare(talk: Talk, answer: dict[str, Any], stem: str, when: str) -> None:
    _refuse_wrong(talk.weigh({"do": "compare_files", "outputs": described(answer, "outputs", stem)}), when)


def _refuse_wrong(verdict: dict[str, Any], when: str) -> None:
    if "finding" in verdict:
        found = Finding.model_validate(verdict["finding"])
        found = found.model_copy(update={"message": f"{when}{found.message}"})
        raise Refused(Status.INCORRECT, "verify", [found])


def described(answer: dict[str, Any], key: str, stem: str) -> dict[str, Any]:
    """What the answer says about tensors that it was told to write as `stem`. Raises Refused."""
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


def _pairs(claims: Any) -> Iterator[tuple[str, str]]:
    for claim in claims if isinstance(claims, list) else []:
        if isinstance(claim, list) and len(claim) == 2:
            yield str(claim[0])[:200], str(claim[1])


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:300].rstrip(".")
