"""Kernels on which compute-sanitizer's racecheck may be wrong, because it does not follow their waits.

Racecheck follows an mbarrier at which every lane arrives and waits for itself. It does not follow
`__syncwarp()` with one lane that waits for its warp, nor a flag in shared memory
(docs/adr/0028-races-that-racecheck-is-not-sure-of.md). Kernels with waits are recognised by the instructions
in their PTX, even if these never run.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from agent.build.build_request import BuildRequest
from agent.emulator.compile import device_check, toolchain
from agent.errors import AgentError
from agent.harness.task.job import BUILD_LIMIT_S
from agent.records import Finding
from agent.torch_shim.finding_kinds import FindingKind

BY = "an mbarrier or a flag"
"""Objects by which the threads of these kernels wait for each other, in words."""
_WAITS = re.compile(r"\bmbarrier\.|\b(?:ld|atom)\.(?:\w+\.)*acquire\b")
_FUNCTION = re.compile(
    r"^(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE
)
_COMMENT = re.compile(r"//.*")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$]*")


class Kernels(NamedTuple):
    """Mangled names of a build's kernels, by whether they wait on an mbarrier or a flag."""

    waiting: frozenset[str] = frozenset()
    """Kernels that contain a waiting instruction or call a function that does."""
    others: frozenset[str] = frozenset()

    def may_be_wrong(self, name: str) -> bool:
        """Return True if a race report that names `name` may concern a waiting kernel.

        For code with line numbers, racecheck names the function that was inlined into the kernel instead.
        """
        if any(_is(name, kernel) for kernel in self.waiting):
            return True
        return bool(self.waiting) and not any(_is(name, kernel) for kernel in self.others)


def kernels(requests: Iterable[BuildRequest], cache: Path) -> Kernels:
    """Return the kernels of the requested builds, without those whose source gives no PTX."""
    tools = toolchain.prepare(cache)
    found = Kernels()
    for request in requests:
        try:
            text = device_check.ptx(tools, request, cache / "builds", BUILD_LIMIT_S)
        except (AgentError, OSError):
            continue
        more = of_ptx(text or "")
        found = Kernels(found.waiting | more.waiting, found.others | more.others)
    return found


def of_ptx(text: str) -> Kernels:
    """Return the kernels of one PTX module, by whether they wait."""
    bodies = {name: (kind, body) for kind, name, body in _functions(_COMMENT.sub("", text))}
    waiting = {name for name, (_, body) in bodies.items() if _WAITS.search(body)}
    calls = {name: set(_SYMBOL.findall(body)) & bodies.keys() for name, (_, body) in bodies.items()}
    while more := {name for name in bodies.keys() - waiting if calls[name] & waiting}:
        waiting |= more
    entries = {name for name, (kind, _) in bodies.items() if kind == "entry"}
    return Kernels(frozenset(entries & waiting), frozenset(entries - waiting))


def _functions(text: str) -> Iterator[tuple[str, str, str]]:
    heads = list(_FUNCTION.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        yield head[1], head[2], text[head.end() : end]


def _is(name: str, mangled: str) -> bool:
    return name == mangled or re.search(rf"(?<!\d){len(name)}{re.escape(name)}", mangled) is not None


def weighed(finding: Finding, known: Kernels) -> Finding:
    """Return the finding, turned into a warning if it is a race that racecheck may report wrongly."""
    kernel = finding.location.kernel if finding.location else None
    if finding.kind != FindingKind.SHARED_RACE or not known.may_be_wrong(kernel or ""):
        return finding
    message = f"{finding.message} Threads wait for {BY} there, which racecheck does not always follow."
    return finding.model_copy(update={"message": message, "severity": "warning"})
