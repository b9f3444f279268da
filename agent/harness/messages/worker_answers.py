"""Answers that the candidate's process may give to each command.

Answers are claims, which only the judge reads, with strict validation. After an answer with a missing field,
an additional field or a wrong type, `ask` ends the process and raises ChildFault (`protocol-violation`). No
field has a default, so that leaving out a claim cannot help a candidate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from agent.harness.messages.commands import require_taken
from agent.harness.messages.device_answers import Device
from agent.sandbox import Child, ChildFault, messages

if TYPE_CHECKING:
    from agent.harness.backends.backend import Backend

Message = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    shape: list[int]
    dtype: str


@dataclass(frozen=True)
class Described:
    """Tensors in files whose names begin with `stem`; see `wire`."""

    stem: str
    tree: Any
    tensors: list[Spec]


@dataclass(frozen=True)
class Copied:
    """Outputs that pass through shared memory. `there` is True if they lie in their assigned places."""

    tree: Any
    tensors: list[Spec]
    there: bool
    stem: str | None


@dataclass(frozen=True)
class Raised:
    type: str
    message: str
    line: int | None
    traceback: str
    kind: Literal["state-dict-mismatch"] | None


@dataclass(frozen=True)
class Failed:
    error: Raised


@dataclass(frozen=True)
class Misfit:
    """Error that the parameters do not fit ModelNew.

    `held` lists its tensors as name, shape, dtype, and True for a parameter or False for a buffer.
    """

    error: Raised
    held: list[tuple[str, list[int], str, bool]]


@dataclass(frozen=True)
class Done:
    pass


@dataclass(frozen=True)
class Loaded:
    torch: str


@dataclass(frozen=True)
class Called:
    """Answer to a call whose tensors pass as files."""

    overlaps: list[list[str]]
    types: list[str]
    devices: list[str]
    outputs: Described
    written_bands: list[int]


@dataclass(frozen=True)
class CalledInMemory:
    """Answer to a call whose tensors pass through shared memory.

    `gone` lists the indices of parameters that no longer exist.
    """

    overlaps: list[list[str]]
    types: list[str]
    devices: list[str]
    outputs: Copied
    gone: list[int]


@dataclass(frozen=True)
class Tried:
    outputs: Described


@dataclass(frozen=True)
class Untraceable:
    untraceable: str


@dataclass(frozen=True)
class Gradients:
    outputs: Described
    gradients: Described | None


@dataclass(frozen=True)
class Operators:
    """Names of torch operators that are refused or could not be checked, each with the reason."""

    refused: list[tuple[str, str]]
    unchecked: list[tuple[str, str]]


@dataclass(frozen=True)
class Kernels:
    """Launched kernels, which `kernel_coverage` validates: a malformed entry counts as not launched."""

    kernels: list[Any]


@dataclass(frozen=True)
class RealShapes(Kernels):
    notes: list[str]
    operators: list[str]


@dataclass(frozen=True)
class Further:
    """Answer to the command for further calls on unchanged inputs.

    `calls` counts the completed calls. `shared` names tensors that share memory with their outputs, and
    `stopped` gives the reason for an early end. `idle` is True if a call launched no kernel. `operators`
    lists the torch operators that ran in calls without kernels.
    """

    calls: int
    shared: list[str]
    stopped: str | None
    idle: bool
    operators: list[str]


@dataclass(frozen=True)
class Event:
    """One kernel run in a profile, with its microseconds (`us`).

    `operators` lists the torch operators that launched the kernel, innermost first.
    """

    name: str
    us: float
    stream: int
    operators: list[str]


@dataclass(frozen=True)
class Profiled:
    kernels: list[Event]


@dataclass(frozen=True)
class Ablated:
    left_out: int
    outputs: Copied


@dataclass(frozen=True)
class Repeated:
    outputs: Copied
    types: list[str]
    devices: list[str]


@dataclass(frozen=True)
class Timed(Repeated):
    """One timed call, with the fields of `timing.Sample`."""

    ms: float
    host_ms: float
    is_late: bool


@dataclass(frozen=True)
class Row:
    there: bool


class Expected(NamedTuple):
    """Type of a command's answer, and perhaps an alternative type with a key that tells it apart."""

    kind: type
    other: tuple[str, type] | None = None


_ANSWERS = {
    "load": Expected(Loaded), "instance": Expected(Done, ("held", Misfit)),
    "former": Expected(Done),
    "real_shapes": Expected(RealShapes), "profile": Expected(Profiled), "ablate": Expected(Ablated),
    "timed": Expected(Timed), "repeated": Expected(Repeated), "prepare_row": Expected(Done),
    "row": Expected(Row), "kernels": Expected(Kernels), "further": Expected(Further),
}  # fmt: skip
_BESIDE = {
    "try": Expected(Tried), "traced": Expected(Tried, ("untraceable", Untraceable)),
    "gradients": Expected(Gradients), "operators": Expected(Operators),
}  # fmt: skip
_CALLED = {"cpu": Expected(Called), "cuda": Expected(CalledInMemory)}


def expected(command: Mapping[str, Any], device: str) -> Expected:
    """Return the type of answer that a command has. Raises KeyError for an unknown command, our defect.

    Answers to `call` depend on the device, as only a GPU's tensors pass through shared memory.
    """
    do = command["do"]
    if do == "call":
        return _CALLED[device]
    return _BESIDE[command["what"]] if do == "beside" else _ANSWERS[do]


def ask(
    child: Child,
    backend: "Backend",
    command: Message,
    limit_s: float,
    granted: Callable[[], float] = lambda: 0.0,
    serve: Callable[[Message], Message] | None = None,
) -> Message:
    """Return the validated answer of the worker.

    `granted` gives seconds that extend `limit_s`, and `serve` builds in place of the backend. Raises
    ChildFault for an invalid answer, and EnvironmentFault if the judge's command was invalid.
    """
    wanted = expected(command, backend.device)

    def built(message: Message) -> Message:
        return (serve or backend.serve)(asked_to_build(message))

    answer = child.ask(command, limit_s, built, granted=granted)
    try:
        require_taken(answer, command)
        check(answer, wanted, backend.device)
        _check_stem(answer, command.get("stem"))
    except messages.Malformed as error:
        child.kill()
        raise ChildFault(f"answered {command['do']} with something else{error}") from None
    return answer


def check(answer: Message, wanted: Expected, device: str) -> None:
    """Raise Malformed for an answer that is neither an error nor of the type `wanted`."""
    keys = ("launches", "device_findings") if device == "cpu" else ()
    report = {key: answer[key] for key in keys if key in answer}
    if device == "cpu":
        read: Device = messages.read(report, Device, finite=True)
        if read.launches < 0 or any(finding.count < 1 for finding in read.device_findings):
            raise messages.Malformed(": a number below the least")
    rest = {key: value for key, value in answer.items() if key not in keys}
    kind = wanted.kind
    if wanted.other is not None and wanted.other[0] in rest:
        kind = wanted.other[1]
    elif "error" in rest:
        kind = Failed
    given = messages.read(rest, kind, finite=True)
    if isinstance(given, (Called, CalledInMemory, Repeated)):
        lengths = {len(given.types), len(given.devices), len(given.outputs.tensors)}
        overlaps = [len(given.overlaps)] if isinstance(given, (Called, CalledInMemory)) else []
        if len(lengths.union(overlaps)) != 1:
            raise messages.Malformed(": of one output more is told than of another")
    if isinstance(given, Ablated) and given.left_out < 0:
        raise messages.Malformed(".left_out: a number below the least")


def asked_to_build(message: Message) -> Message:
    """Return `message` if it is a valid request to build, the only request that a worker may make.

    Raises ChildFault for any other request.
    """
    build = message.get("build")
    known = (
        message.keys() == {"request", "build"} and message["request"] == "build" and isinstance(build, dict)
    )
    if not known or build is None:
        raise ChildFault("asked for something that is no build")
    try:
        messages.read([build.get("seconds", 0.0)], list[float], finite=True)
        messages.read([build.get("log")], list[str | None])
        messages.read([build.get("begins", False)], list[bool])
    except messages.Malformed as error:
        raise ChildFault(f"reported a build that is none{error}") from None
    return message


def _check_stem(answer: Message, stem: str | None) -> None:
    """Raise Malformed unless the outputs' files begin with the stem that the judge gave."""
    outputs = answer.get("outputs")
    if stem is not None and isinstance(outputs, dict) and outputs.get("stem") != stem:
        raise messages.Malformed(".outputs.stem: another name than was given")
