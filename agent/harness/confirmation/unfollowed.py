"""Kernels whose synchronization compute-sanitizer's racecheck does not always follow.

A race that it reports of them may be none (docs/adr/0028-races-that-racecheck-is-not-sure-of.md). They are
known by their instructions in what NVIDIA's compiler makes of them, whether or not these run.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from agent.build.build_request import BuildRequest
from agent.emulator.compile import device_check, toolchain
from agent.errors import AgentError
from agent.harness.task.job import BUILD_LIMIT_S
from agent.records import Finding
from agent.torch_shim.finding_kinds import FindingKind

BY = "an mbarrier, a bulk copy or the blocks of a cluster"
"""What such a kernel waits for, in words."""
_WAITS = re.compile(
    r"\b(?:mbarrier\.|barrier\.cluster\.|cp\.async\.(?:bulk|mbarrier)\.|st\.async\.|\w+\.shared::cluster\b)"
)
_FUNCTION = re.compile(
    r"^(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE
)
_COMMENT = re.compile(r"//.*")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$]*")


def kernels(requests: Iterable[BuildRequest], cache: Path) -> frozenset[str]:
    """Their mangled names in what was asked to be built; a source of which there is no PTX has none."""
    tools = toolchain.prepare(cache)
    found: set[str] = set()
    for request in requests:
        try:
            text = device_check.ptx(tools, request, cache / "builds", BUILD_LIMIT_S)
        except (AgentError, OSError):
            continue
        found |= waiting(text or "")
    return frozenset(found)


def waiting(ptx: str) -> frozenset[str]:
    """The kernels of PTX that hold such an instruction, or call a function that does."""
    bodies = {name: (kind, body) for kind, name, body in _functions(_COMMENT.sub("", ptx))}
    holding = {name for name, (_, body) in bodies.items() if _WAITS.search(body)}
    calls = {name: set(_SYMBOL.findall(body)) & bodies.keys() for name, (_, body) in bodies.items()}
    while more := {name for name in bodies.keys() - holding if calls[name] & holding}:
        holding |= more
    return frozenset(name for name in holding if bodies[name][0] == "entry")


def _functions(ptx: str) -> Iterator[tuple[str, str, str]]:
    heads = list(_FUNCTION.finditer(ptx))
    ends = [head.start() for head in heads[1:]] + [len(ptx)]
    for head, end in zip(heads, ends, strict=True):
        yield head[1], head[2], ptx[head.end() : end]


def weighed(finding: Finding, mangled: Collection[str]) -> Finding:
    """A report of a race in one of these kernels as a warning; any other finding as it is."""
    kernel = finding.location.kernel if finding.location else None
    if finding.kind != FindingKind.SHARED_RACE or kernel is None or not is_among(kernel, mangled):
        return finding
    message = f"{finding.message} The kernel waits for {BY}, which racecheck does not always follow."
    return finding.model_copy(update={"message": message, "severity": "warning"})


def is_among(kernel: str, mangled: Iterable[str]) -> bool:
    """Whether one of these names is that of a kernel whose plain name this is."""
    named = re.compile(rf"(?<!\d){len(kernel)}{re.escape(kernel)}")
    return any(name == kernel or named.search(name) for name in mangled)
