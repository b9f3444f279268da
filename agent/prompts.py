"""What a provider is asked: a pure function of the problem and where the run stands.

The words live in `prompts/*.jinja2` (`system`, and one of `plan`, `generate`, `repair`, `optimise`,
`combine`); this
module chooses the template, formats numbers and fences foreign text. It measures nothing, judges nothing and
computes no floor: the caller brings it. Every request is complete in itself, so a prompt shows exactly one
attempt with its own findings, and the best one beside it.
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
}
"""What the judge checks on request, in words for the model."""
_EXCERPT_LINES = 5
"""Lines shown before and after the one that a finding names, when the same fault came back."""


class Requirement(Record):
    """One wish of the user's own."""

    text: str
    checked: bool = False
    """Whether the judge checks it. Nothing free-form is checked, version compatibility included."""


class Situation(Record):
    """Where the run stands before a prompt."""

    last: Attempt | None = None
    best: Attempt | None = None
    """The best verified attempt."""
    feedback: Feedback | None = None
    """On the last answer: on `last`, or on an answer without usable code."""
    mended: tuple[Attempt, ...] = ()
    """The answer that `last` was mended from, and the mends between, oldest first; empty where it is none."""
    ledger: Ledger = Ledger()
    """All attempts on this line so far."""
    idea: str = ""
    """An approach to try, in words for the model."""
    ideas: int = 0
    """So many approaches are asked for, and no kernel; 0: a kernel is."""
    other: Attempt | None = None
    """The best verified attempt of another line, to be combined with `best`."""
    requirements: tuple[Requirement, ...] = ()
    gpu: str
    """The GPU that the kernel and the floor are for."""
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
    """The wishes in TEXT, or in the file named by @FILE: one for each line that is not blank.

    Raises UsageError when the file cannot be read as UTF-8 text.
    """
    return tuple(requirement(line) for line in lines(argument))


def requested(argument: str) -> tuple[Request, ...]:
    """The requests that are named among the wishes. Raises UsageError as above."""
    return tuple(name for name in get_args(Request) if name in lines(argument))


def requirement(line: str) -> Requirement:
    """One wish; the name of a request is checked, and told in its own words."""
    known = _REQUESTS.get(line)
    return Requirement(text=known, checked=True) if known else Requirement(text=line)


def lines(argument: str) -> tuple[str, ...]:
    """What is asked for in TEXT or @FILE, word for word. Raises UsageError as above."""
    text = argument
    if argument.startswith("@"):
        try:
            text = Path(argument[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(f"cannot read the requirements in {argument[1:]!r}: {reason}") from error
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def wishes(require: str, requests: tuple[Request, ...] = ()) -> tuple[Requirement, ...]:
    """The user's own requirements, and what else is judged on request."""
    asked = [*map(requirement, requests), *(requirements(require) if require else ())]
    return tuple(dict.fromkeys(asked))


def render(problem: Problem, situation: Situation) -> Prompt:
    """The next request: the rules as the system message, the problem and the task as the user's."""
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
    """An estimate for `--dry-run`."""
    return sections.tokens("".join(message.content for message in prompt.messages))


def skeleton() -> str:
    """The example file of the system prompt: a complete ModelNew for y = 2x."""
    return _environment().get_template("partials/skeleton.jinja2").render()


def rules() -> str:
    """What a candidate must be and how load_inline binds it, as the system prompt says it."""
    parts = (_environment().get_template(f"partials/{name}.jinja2") for name in ("rules", "binding"))
    return "\n".join(part.render(skeleton=skeleton(), library_ops="gemm-conv") for part in parts)


def _template(situation: Situation) -> Template:
    """Optimise what is verified; an answer that was not is repaired first, the best beside it."""
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
    """Operators with a card, each once, in order; `add_` is defined by the card of `add`."""
    names = dict.fromkeys(operation.op.rstrip("_") for operation in trace.operations)
    folder = resources.folder("prompts") / "partials" / "ops"
    files = {name: folder / f"{name}.jinja2" for name in names}
    known = [name for name, file in files.items() if file.is_file()]
    return list(sections.first(known, sections.CARDS, lambda name: files[name].read_text(encoding="utf-8")))


def _remembered(situation: Situation) -> dict[str, object]:
    """What the templates say of earlier attempts. A single one is the last, which is shown whole."""
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
    """The lines around the one that the headline names, numbered; empty where it names none."""
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
    """`text` as a Markdown block whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def _specification(value: TensorSpec | JsonValue) -> str:
    if not isinstance(value, TensorSpec):
        return f"the value {value!r}"
    return f"{value.dtype} ({', '.join(map(str, value.shape))}{',' if len(value.shape) == 1 else ''})"


def _operands(operation: Operation, trace: Trace) -> list[str]:
    """Each tensor operand with where it comes from: a parameter's name, an input, an earlier operation."""
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
