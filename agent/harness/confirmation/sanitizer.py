"""NVIDIA's compute-sanitizer on some calls at small sizes: out-of-bounds accesses, races in shared memory.

The tool runs the worker in its sandbox. Its output is read from the worker's log, where a candidate could
print as well, so the tool can refuse a candidate but never verify one. Every tensor gets a separate
allocation, so that the tool knows where the tensor ends.
"""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from agent import config
from agent.build.build_request import BuildRequest
from agent.harness.backends import build_watch, gpu_lock, load_inline_build, selection
from agent.harness.backends.workspace import workspace
from agent.harness.confirmation import unfollowed
from agent.harness.integrity.kernel_attribution import plain
from agent.harness.task.faults import Refused
from agent.harness.task.job import Announce, Job
from agent.harness.trial.gpu_trial import GpuTrial, Hung
from agent.problems import Shrunken
from agent.records import Finding, Location, Status
from agent.torch_shim.finding_kinds import FindingKind

OUT_OF_BOUNDS, DEVICE_FAULT = "out-of-bounds", "device-fault"
"""Kinds of findings that only this module has: an invalid access, and any other report except a race."""
TOOLS = {"memcheck": "accesses out of bounds", "racecheck": "races in shared memory"}
SHOWN_ERRORS = 20
CALLS = 3
"""Number of calls under a tool. An instance's first call may differ from its later calls."""
HELD_S = 4.0
"""Maximum seconds of GPU use for the calls under a tool, during which timing has to wait."""
_HEAD = re.compile(
    r"^=+ (?P<what>Invalid \S+ (?:read|write|atomic) of size \d+ bytes|"
    r"(?:Error|Warning): Race reported between (?P<one>\w+) access .*|Program hit .*|Misaligned .*)$"
)
_PLACE = re.compile(r"^=+.*? at (?P<kernel>.+?)\+0x[0-9a-f]+")
_THREAD = re.compile(r"^=+\s+by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")


def tool() -> Path | None:
    """Return the path of compute-sanitizer beside `load_inline`'s nvcc, or None if it is missing."""
    command = Path(load_inline_build.nvcc(config.child_environment())).with_name("compute-sanitizer")
    return command if command.is_file() else None


def check(job: Job, at: Shrunken, announce: Announce) -> tuple[list[Finding], tuple[str, ...]]:
    """Return the findings of both tools, run side by side, and the skipped checks with their reasons.

    A race that racecheck may report wrongly becomes a warning; see `unfollowed`.
    """
    command = tool()
    if command is None:
        return [], ("compute-sanitizer: not installed here",)
    announce(f"looking for {' and '.join(TOOLS.values())} with compute-sanitizer")
    looks = _looked(job, at, command, tuple(TOOLS))
    for name, look in looks.items():
        if look.without_end:
            # The other tool, running at the same time, may have interfered.
            looks[name] = _looked(job, at, command, (name,))[name]
    skipped = [look.skipped for look in looks.values() if look.skipped]
    found = [finding for look in looks.values() for finding in look.found]
    if any(finding.kind == FindingKind.SHARED_RACE for finding in found):
        requests = build_watch.distinct([request for look in looks.values() for request in look.requests])
        doubted = unfollowed.kernels(requests.values(), Path(job.cache_dir))
        found = [unfollowed.weighed(finding, doubted) for finding in found]
    return found, tuple(skipped)


def _looked(job: Job, at: Shrunken, command: Path, names: tuple[str, ...]) -> dict[str, "_Look"]:
    """Return the results of tools that run side by side in one shared section on the GPU."""
    with ExitStack() as stack:
        opened = {
            name: stack.enter_context(
                _opened(job, at, (str(command), "--tool", name, "--print-limit", str(SHOWN_ERRORS)))
            )
            for name in names
        }
        # The trials' own locks are not used: each would release the GPU for both while its trial builds.
        queue = gpu_lock.of_gpu(
            Path(job.cache_dir), config.child_environment(), lambda what: None, job.begun_ns
        )
        turn = _Turn(queue.shared)
        begun = {name: _begun(partial(_look, name, trial, turn)) for name, trial in opened.items()}
        return {name: future.result() for name, future in begun.items()}


def log_of_calls(job: Job, at: Shrunken, prefix: list[str], calls: int = 1) -> str:
    """Return the output printed during `calls` calls under the tool of `prefix`. Raises Hung."""
    with _opened(job, at, tuple(prefix)) as trial:
        return _log(trial, trial.alone_on_gpu(), calls)


@contextmanager
def _opened(job: Job, at: Shrunken, prefix: tuple[str, ...]) -> Iterator[GpuTrial]:
    """Open a trial whose worker runs under a tool; its processes end with the context."""
    watched = job.model_copy(update={"measure": False})
    backend = selection.backend_for(watched, lambda what: None)
    with (
        workspace(job.candidate, at.trace, backend) as folder,
        GpuTrial(watched, at.source, at.trace, folder=folder, backend=backend, tool=prefix) as trial,
    ):
        yield trial


def _log(trial: GpuTrial, turn: AbstractContextManager[None], calls: int) -> str:
    try:
        trial.load(ahead=False)
        trial.instantiate()
    except Refused as refused:
        if refused.status is Status.TIMEOUT:
            raise Hung(str(refused)) from None
        return str(refused)
    with turn:
        return trial.call_under_a_tool(calls, HELD_S)


class _Look(NamedTuple):
    """Result of one tool of compute-sanitizer."""

    found: list[Finding]
    skipped: str | None = None
    """Reason why the tool's report is incomplete, or None."""
    without_end: bool = False
    """True if the tool ended without a summary, although no time limit stopped it."""
    requests: tuple[BuildRequest, ...] = ()
    """Builds that the candidate requested."""


def _look(name: str, trial: GpuTrial, turn: "_Turn") -> _Look:
    hung = False
    try:
        log = _log(trial, turn, CALLS)
    except Hung as fault:
        log, hung = fault.log, True
    if "ERROR SUMMARY" in log or "RACECHECK SUMMARY" in log:
        return _Look(parsed(log), requests=trial.requests)
    reason = f"compute-sanitizer {name}: {_unended(log, hung)}"
    return _Look(parsed(log), reason, not hung, trial.requests)


def _unended(log: str, hung: bool) -> str:
    if hung:
        return f"{CALLS} calls took longer than the {HELD_S:g} s for which it may use the GPU"
    return f"it did not come to an end: {last_line(log)}"


class _Turn(AbstractContextManager[None]):
    """Section on the GPU that several threads share: the first to enter begins it, the last ends it."""

    def __init__(self, held: Callable[[], AbstractContextManager[None]]) -> None:
        self._held, self._inside = held, 0
        self._guard, self._taken = threading.Lock(), ExitStack()

    def __enter__(self) -> None:
        with self._guard:
            if not self._inside:
                self._taken.enter_context(self._held())
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._inside -= 1
            if not self._inside:
                self._taken.close()


def _begun(work: Callable[[], _Look]) -> "Future[_Look]":
    """Run the work in a daemon thread, which ends once the caller ends the trial's processes."""
    done: Future[_Look] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def parsed(log: str) -> list[Finding]:
    """Return the tools' reports in a log, one finding for each kernel and kind."""
    found: dict[tuple[str, str], Finding] = {}
    for lines in _reports(log):
        finding = _finding(lines)
        key = finding.kind, (finding.location.kernel or "") if finding.location else ""
        known = found.get(key)
        found[key] = known.model_copy(update={"count": known.count + 1}) if known else finding
    return list(found.values())


def _reports(log: str) -> Iterator[list[str]]:
    report: list[str] = []
    for line in log.splitlines():
        if _HEAD.match(line):
            if report:
                yield report
            report = [line]
        elif report and line.startswith("=========") and len(line.strip("= ")) > 0:
            report.append(line)
        elif report:
            yield report
            report = []
    if report:
        yield report


def _finding(lines: list[str]) -> Finding:
    head = lines[0].strip("= ")
    place = next((match for line in lines for match in [_PLACE.match(line)] if match), None)
    thread = next((match for line in lines for match in [_THREAD.match(line)] if match), None)
    numbers = [int(number) for number in thread.groups()] if thread else []
    kernel = plain(place["kernel"]) if place else None
    race, outside = "Race" in head, head.startswith("Invalid")
    what = "threads of a block access the same shared memory without a barrier between" if race else head
    return Finding(
        kind=FindingKind.SHARED_RACE if race else OUT_OF_BOUNDS if outside else DEVICE_FAULT,
        message=f"compute-sanitizer, in kernel {kernel or '?'}: {what}.",
        location=Location(
            kernel=kernel,
            thread=(numbers[0], numbers[1], numbers[2]) if numbers else None,
            block=(numbers[3], numbers[4], numbers[5]) if numbers else None,
        ),
        evidence="\n".join(line.removeprefix("=========").strip() for line in lines[:8]),
    )


def last_line(log: str) -> str:
    """Return the last printed line of a log, cut to 200 characters."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"
