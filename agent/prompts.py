"""Prompts for the provider: a pure function of the problem and the state of the run.

The text is in `prompts/*.jinja2` (`system`, and one of `plan`, `generate`, `repair`, `optimise`, `combine`).
This module chooses the template, formats numbers and fences foreign text. The caller passes measurements,
verdicts and the roofline floor. Every prompt is self-contained. It therefore shows exactly one attempt with
its own findings, and the best attempt beside it.
"""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal, Self, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import JsonValue, model_validator

from agent import figures, resources, sections
from agent.errors import UsageError
from agent.memory import Ledger
from agent.problems import gpu_cards
from agent.records import (
    Attempt,
    Feedback,
    LibraryOps,
    Message,
    Operation,
    Problem,
    Prompt,
    Record,
    Request,
    Status,
    TensorSpec,
    Trace,
)

Template = Literal["plan", "generate", "repair", "optimise", "combine"]

_REQUESTS: dict[str, str] = {
    "backward": "Training works: the gradients of every input and parameter are right, so wrap the kernels "
    "in a torch.autograd.Function with a backward.",
    "compile-safe": "torch.compile(fullgraph=True) traces forward without a graph break: call the kernels "
    "through an operator of your own (torch.library.custom_op with register_fake) that "
    "torch.library.opcheck accepts.",
    "any-rank": "Inputs of every rank and shape that the reference takes with the same constructor arguments "
    "give right results: read each size from the tensors.",
    "confirmed": "A second look repeats each kernel on a CPU emulator at smaller sizes and has to run it "
    "there: read sizes from the tensors, and use no CUDA graphs, textures or launches from device code.",
}
"""Text for the model of each check that the judge makes on request."""
_EXCERPT_LINES = 5
"""Number of lines shown before and after the line of a recurring fault."""


class Requirement(Record):
    """One requirement of the user."""

    text: str
    checked: bool = False
    """True if the judge checks the requirement. Free-form text is never checked."""


class Situation(Record):
    """State of the run before a prompt."""

    last: Attempt | None = None
    best: Attempt | None = None
    """Best verified attempt."""
    feedback: Feedback | None = None
    """Feedback on the last answer: on `last`, or on an answer without usable code."""
    mended: tuple[Attempt, ...] = ()
    """Chain of attempts whose automatic fixes led to `last`, oldest first. Empty if `last` is an answer."""
    ledger: Ledger = Ledger()
    """Ledger of the attempts on this line so far."""
    idea: str = ""
    """Text of an approach that the model is to try."""
    ideas: int = 0
    """Number of approaches to ask for instead of a kernel. 0 asks for a kernel."""
    other: Attempt | None = None
    """Best verified attempt of another line, to be combined with `best`."""
    requirements: tuple[Requirement, ...] = ()
    gpu: str
    """Name of the GPU that the kernel and the roofline floor are for."""
    floor_ms: float | None = None
    library_ops: LibraryOps = "gemm-conv"

    @model_validator(mode="after")
    def _nothing_is_mixed(self) -> Self:
        if self.best and self.best.evaluation.status is not Status.VERIFIED:
            raise ValueError("the best attempt is a verified one")
        about = self.feedback.attempt if self.feedback else None
        if about is not None and (self.last is None or self.last.number != about):
            raise ValueError(f"feedback on attempt {about} belongs beside that attempt's code")
        chain = [*self.mended, *([self.last] if self.last else [])]
        if any(child.candidate.parent != attempt.candidate.id for attempt, child in pairwise(chain)):
            raise ValueError("each mended attempt is the parent of the next")
        return self


def requirements(argument: str) -> tuple[Requirement, ...]:
    """Return the requirements in TEXT, or in the file named by @FILE: one for each non-blank line.

    Raises UsageError if the file cannot be read as UTF-8 text.
    """
    return tuple(requirement(line) for line in lines(argument))


def requested(argument: str) -> tuple[Request, ...]:
    """Return the checks on request that the requirements name. Raises as `requirements` does."""
    return tuple(name for name in get_args(Request) if name in lines(argument))


def requirement(line: str) -> Requirement:
    """Return one requirement. The name of a check becomes the text of that check."""
    known = _REQUESTS.get(line)
    return Requirement(text=known, checked=True) if known else Requirement(text=line)


def lines(argument: str) -> tuple[str, ...]:
    """Return the non-blank lines of TEXT or @FILE. Raises as `requirements` does."""
    text = argument
    if argument.startswith("@"):
        try:
            text = Path(argument[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(f"cannot read the requirements in {argument[1:]!r}: {reason}") from error
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def wishes(require: str, requests: tuple[Request, ...] = ()) -> tuple[Requirement, ...]:
    """Return the distinct requirements: the checks on request, then the user's own."""
    asked = [*map(requirement, requests), *(requirements(require) if require else ())]
    return tuple(dict.fromkeys(asked))


def render(problem: Problem, situation: Situation) -> Prompt:
    """Return the next prompt: the rules as system message, the problem and the task as user message."""
    template = _template(situation)
    environment = _environment()
    card = gpu_cards.card(situation.gpu)
    content = environment.get_template(f"{template}.jinja2").render(
        problem=problem, situation=situation, cards=_cards(problem.trace), card=card, **_remembered(situation)
    )
    system = environment.get_template("system.jinja2").render(
        skeleton=skeleton(), card=card, library_ops=situation.library_ops
    )
    return Prompt(
        template=template,
        messages=(
            Message(role="system", content=system.strip("\n") + "\n"),
            Message(role="user", content=content.strip("\n") + "\n"),
        ),
    )


def estimate_tokens(prompt: Prompt) -> int:
    """Estimate the number of tokens of a prompt, for `--dry-run`."""
    return sections.tokens("".join(message.content for message in prompt.messages))


def skeleton() -> str:
    """Return the example file of the system prompt, a complete ModelNew for y = 2x."""
    return _environment().get_template("partials/skeleton.jinja2").render()


def rules() -> str:
    """Return the rules for a candidate and for `load_inline` bindings, as in the system prompt."""
    parts = (_environment().get_template(f"partials/{name}.jinja2") for name in ("rules", "binding"))
    return "\n".join(part.render(skeleton=skeleton(), library_ops="gemm-conv") for part in parts)


def _template(situation: Situation) -> Template:
    """Choose the template. A failed attempt is repaired first; a verified one is optimised."""
    if situation.ideas:
        return "plan"
    if situation.feedback and situation.feedback.attempt is None:
        return "repair"
    if situation.best and situation.other:
        return "combine"
    last_verified = situation.last is None or situation.last.evaluation.status is Status.VERIFIED
    if situation.best and last_verified:
        return "optimise"
    return "repair" if situation.feedback else "generate"


def _cards(trace: Trace) -> list[str]:
    """Return the traced operators that have a card (a text in `prompts/partials/ops`), each once, in order.

    `add_` uses the card of `add`.
    """
    names = dict.fromkeys(operation.op.rstrip("_") for operation in trace.operations)
    folder = resources.folder("prompts") / "partials" / "ops"
    files = {name: folder / f"{name}.jinja2" for name in names}
    known = [name for name, file in files.items() if file.is_file()]
    return list(sections.first(known, sections.CARDS, lambda name: files[name].read_text(encoding="utf-8")))


def _remembered(situation: Situation) -> dict[str, object]:
    """Return the template variables for earlier attempts.

    A single attempt gets no ledger, since it is the last one, which is shown whole.
    """
    ledger, best = situation.ledger, situation.best
    entries = ledger.entries if len(ledger.entries) > 1 else ()
    kept = sections.last(entries, sections.LEDGER, str)
    left = len(entries) - len(kept)
    note = [f"({left} older left out)"] if left else []
    judged = situation.feedback is not None and situation.feedback.attempt is not None
    return {
        "tried": "\n".join([*note, *map(str, kept)]),
        "seen": ledger.seen,
        "escalation": ledger.escalation if judged else "none",
        "excerpt": _excerpt(situation.last) if situation.last else "",
        "best_fits": best is None or sections.tokens(best.candidate.source) <= sections.BEST_CODE,
    }


def _excerpt(attempt: Attempt) -> str:
    """Return the numbered source lines around the headline finding; empty if the finding names no line."""
    headline = attempt.evaluation.headline
    line = headline.location.line if headline and headline.location else None
    if line is None:
        return ""
    rows = list(enumerate(attempt.candidate.source.splitlines(), 1))
    shown = rows[max(0, line - 1 - _EXCERPT_LINES) : line + _EXCERPT_LINES]
    return "\n".join(f"{'>' if number == line else ' '} {number:4}  {text}" for number, text in shown)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(resources.folder("prompts")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters |= {
        "attributes": lambda operation: ", ".join(f"{k}={v!r}" for k, v in operation.attributes.items()),
        "fenced": fenced,
        "findings": lambda text: sections.paragraphs(text, sections.FINDINGS),
        "launches": figures.launches,
        "literal": repr,
        "milliseconds": lambda value: f"{value:.3g} ms",
        "notes": figures.notes,
        "operands": _operands,
        "quantity": figures.quantity,
        "resources": figures.resources,
        "rivals": figures.rivals,
        "specification": _specification,
    }
    return environment


def fenced(text: str, language: str = "") -> str:
    """Return `text` as a Markdown block with a fence longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def _specification(value: TensorSpec | JsonValue) -> str:
    if not isinstance(value, TensorSpec):
        return f"the value {value!r}"
    return f"{value.dtype} ({', '.join(map(str, value.shape))}{',' if len(value.shape) == 1 else ''})"


def _operands(operation: Operation, trace: Trace) -> list[str]:
    """Return each tensor operand with its origin: a parameter, an input or an earlier operation."""
    makers = operation.takes_result_of or (None,) * len(operation.inputs)
    return [
        f"{_origin(operand, maker, trace)}: {_specification(operand)}"
        for operand, maker in zip(operation.inputs, makers, strict=True)
    ]


def _origin(operand: TensorSpec, maker: int | None, trace: Trace) -> str:
    if operand.name:
        return f"`{operand.name}`"
    if maker is not None:
        return f"result of {maker + 1}"
    same = [index for index, value in enumerate(trace.inputs) if value == operand]
    return f"input {same[0]}" if len(same) == 1 else "input"
