"""Kernels that only the real sizes launch, and smaller sizes at which these kernels run too.

A fast candidate often uses its kernel at one size only and falls back to another for all other sizes. A
verdict at smaller sizes alone would be about the fallback. The host code is therefore called at the real
sizes, on tensors without backed memory. Launches are recorded but not run. For kernels that no draw has run,
suitable smaller sizes are searched with further such calls, and a second trial judges at them.

The launches that a candidate's process reports are a claim. The claim decides at which further sizes to judge
and which kernels a verdict does not cover, but it is no evidence for the candidate. A candidate that hides a
launch keeps the verdict that it would have had without this check.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

from agent import problems
from agent.build.build_request import BuildRequest
from agent.diagnosis.runtime import python_errors
from agent.harness.backends import build_watch
from agent.harness.backends.backend import Backend
from agent.harness.backends.candidate_process import CandidateProcess, Serve
from agent.harness.integrity import real_shapes
from agent.problems import Shrunken
from agent.records import Problem, Trace
from agent.sandbox import ChildFault

LIMIT_S = 20.0
"""Maximum seconds of each call of the host code."""
MAX_PLANS = 2
"""Maximum number of further sizes at which one candidate is judged."""
_MAX_KERNELS = 64
_MAX_NAME = 100
_LONGEST = 4_000
"""Maximum number of characters of a kernel's signature that are read."""

TraceOf = Callable[[str], Trace | None]
"""Function that traces the reference with other sizes, or returns None if the reference raises."""


class Coverage(NamedTuple):
    """Kernels that the real sizes launch but the judged sizes do not."""

    missing: tuple[str, ...] = ()
    """Signatures of the kernels that only the real sizes launched."""
    plans: tuple[Shrunken, ...] = ()
    """Sizes at which these kernels also run, according to the host code."""
    left_out: tuple[str, ...] = ()
    """Reasons why the call at the real sizes could not be followed, worded for the scope."""


class CandidateHost(Protocol):
    """Candidate's process that is asked for its launches; `serve` answers its build requests."""

    def ask(self, command: dict[str, Any], limit_s: float, serve: Serve | None = None) -> dict[str, Any]: ...


def looked(
    problem: Problem, candidate: str, ran: Collection[str], process: CandidateHost, backend: Backend,
    trace_of: TraceOf,
) -> Coverage:  # fmt: skip
    """Return the kernels of a call at the real sizes that are not in `ran`, and sizes that launch them.

    The process cannot compute anything afterwards.
    """
    host = _Host(process)
    real = host.launched(problem.trace)
    if isinstance(real, str):
        return Coverage(left_out=(f"the kernels that the real shape launches: {real}",))
    missing = tuple(kernel for kernel in real if kernel not in ran)
    host = _Host(process, known_builds(backend, candidate))

    def sizes_for(kernels: Sequence[str]) -> Shrunken | None:
        return problems.lowered(problem, candidate, trace_of, lambda trace: host.reaches(kernels, trace))

    together = sizes_for(missing) if missing else None
    if together is not None or len(missing) < 2:
        return Coverage(missing, (together,) if together else ())
    plans: list[Shrunken] = []
    open_ones = list(missing)
    while open_ones and len(plans) < MAX_PLANS:
        plan = sizes_for(open_ones[:1])
        open_ones = open_ones[1:]
        if plan is not None:
            plans.append(plan)
            open_ones = [kernel for kernel in open_ones if not host.reaches([kernel], plan.trace)]
    return Coverage(missing, tuple(plans))


def of_subject(problem: Problem, candidate: str, process: CandidateProcess, trace_of: TraceOf) -> Coverage:
    """Return the coverage of a candidate in a new process, for which no kernel counts as run."""
    try:
        if "error" in process.load():
            return Coverage()
    except ChildFault:
        return Coverage()
    assert process.backend is not None
    return looked(problem, candidate, (), process, process.backend, trace_of)


def known_builds(backend: Backend, candidate: str) -> Serve:
    """Return a function that serves repeated build requests and refuses new ones.

    Building new sources for every size tried would take too long.
    """

    def serve(message: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            request = BuildRequest(candidate_source=candidate, **message["build"])
            if build_watch.content(request) in {build_watch.content(known) for known in backend.requests}:
                return backend.serve(message)
        return {"error": "nothing else is built while sizes are looked for"}

    return serve


def kernels(answer: dict[str, Any]) -> tuple[str, ...]:
    """Return the kernel signatures in a worker's answer, without malformed entries."""
    claimed = answer.get("kernels")
    entries = claimed[:_MAX_KERNELS] if isinstance(claimed, list) else []
    names = (entry.get("kernel") for entry in entries if isinstance(entry, dict))
    return tuple(name[:_LONGEST] for name in names if isinstance(name, str))


def short(signature: str) -> str:
    """Return a kernel's short name, such as `scan<8>` for `void scan(const float*) [with int N = 8]`.

    Names of other forms stay as they are.
    """
    named = re.match(r"(?:\w+\s+)*?([\w:{}<>~, ]+?)\(", signature.removeprefix("void "))
    name = named[1].rpartition("::")[2] if named and "<" not in named[1] else named[1] if named else signature
    given = re.search(r"\[with (.*)\]$", signature)
    values = [part.partition(" = ")[2] for part in given[1].split("; ")] if given else []
    whole = f"{name}<{', '.join(values)}>" if values else name
    return re.sub(r"[^\w:<>,~ ]", "?", whole)[:_MAX_NAME]


class _Host:
    """Candidate's host code, called on tensors without backed memory."""

    def __init__(self, process: CandidateHost, serve: Serve | None = None) -> None:
        self._process, self._serve = process, serve
        self._ended: str | None = None

    def reaches(self, kernels: Sequence[str], sizes: Trace) -> bool:
        launched = self.launched(sizes)
        return not isinstance(launched, str) and set(kernels) <= set(launched)

    def launched(self, sizes: Trace) -> tuple[str, ...] | str:
        """Return the kernels that one call launches, or the reason why the call could not be followed."""
        command = real_shapes.command(sizes, numbers=False, host_only=True)
        if command is None:
            return "an input of the reference is neither a tensor nor a plain value"
        if self._ended is not None:
            return self._ended
        try:
            answer = self._process.ask(command, LIMIT_S, self._serve)
        except ChildFault as fault:
            self._ended = f"the candidate's process {fault}"
            return self._ended
        if "error" in answer:
            return python_errors.finding(answer["error"], "the call failed", "").message[:300]
        notes = answer.get("notes")
        return str(notes[0])[:300] if isinstance(notes, list) and notes else kernels(answer)
