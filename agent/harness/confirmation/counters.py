"""NVIDIA's hardware counters over one call of a new best, which refine the recommendation on its speed.

Nsight Compute runs the worker in its sandbox and repeats each kernel for each group of counters. Its output
is read from the worker's log, where a candidate could print as well, so counters change no verdict. A note
in the scope tells if ncu is missing or the driver reserves the counters for administrators.
"""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from agent import config
from agent.build.source_map import CANDIDATE
from agent.diagnosis.performance import stalls
from agent.diagnosis.performance.counters import DURATION, METRICS, Counters, parsed
from agent.harness.backends import load_inline_build
from agent.harness.confirmation import sanitizer
from agent.harness.integrity.kernel_attribution import plain
from agent.harness.task.job import Announce, Job
from agent.harness.trial.gpu_trial import Hung
from agent.problems import Shrunken
from agent.records import Profile

LAUNCHES = 8
"""Maximum number of the candidate's launches that are profiled, counted from the first."""
WHOLE_BYTES = 2 << 30
"""Maximum bytes of a problem whose own sizes are profiled, as each pass saves and restores GPU memory."""
FORBIDDEN = "ERR_NVGPUCTRPERM"
_UNKNOWN = re.compile(r"Failed to find metric\s+(?:regex:\^?)?([\w.]+)")


class Read(NamedTuple):
    """Counters of each profiled launch; `left_out` gives the reason if there are none."""

    launches: list[Counters]
    left_out: str | None = None


def tool() -> Path | None:
    """Return the path of ncu, or None: beside `load_inline`'s nvcc, on PATH or under /opt/nvidia."""
    beside = Path(load_inline_build.nvcc(config.child_environment())).with_name("ncu")
    named = shutil.which("ncu", path=config.child_environment().get("PATH"))
    places = [
        beside,
        *([Path(named)] if named else []),
        *sorted(Path("/opt/nvidia").glob("nsight-compute/*/ncu")),
    ]
    return next((place for place in places if place.is_file()), None)


def read(job: Job, at: Shrunken, profile: Profile, announce: Announce) -> Read:
    """Return the counters of the candidate's own kernels.

    Sizes are the problem's own up to `WHOLE_BYTES`, and those of `at` above.
    """
    command = tool()
    names = own_names(profile)
    if command is None:
        return Read([], "ncu's counters: it is not installed here")
    if not names:
        return Read([], "ncu's counters: no kernel of the candidate's is known by name")
    announce("reading NVIDIA's counters with ncu")
    whole = job.problem.trace.min_bytes <= WHOLE_BYTES
    if whole:
        at = at.model_copy(update={"source": job.problem.source, "trace": job.problem.trace})
    metrics = list(METRICS)
    try:
        log = sanitizer.log_of_calls(job, at, asked(command, names, metrics))
        unknown = set(_UNKNOWN.findall(log))
        if unknown and unknown < set(metrics):
            # Each GPU generation has its own metric names.
            metrics = [name for name in metrics if name not in unknown]
            log = sanitizer.log_of_calls(job, at, asked(command, names, metrics))
    except Hung as fault:
        return Read([], f"ncu's counters: {fault}")
    found = judged(log, reduced=not whole)
    return found._replace(launches=_with_lines(job, at, command, names, found.launches))


def _with_lines(
    job: Job, at: Shrunken, command: Path, names: list[str], launches: list[Counters]
) -> list[Counters]:
    """Return the launches, the longest with the source lines where its warps wait, if ncu reports them."""
    longest = max(launches, key=lambda launch: launch.values.get(DURATION, 0.0), default=None)
    name = plain(longest.kernel) if longest else ""
    if name not in names:
        return launches
    try:
        log = sanitizer.log_of_calls(job.model_copy(update={"lines": True}), at, sampled(command, name))
    except Hung:
        return launches
    waiting = stalls.parsed(log, CANDIDATE, job.candidate.source)
    return [launch._replace(waiting=waiting) if launch is longest else launch for launch in launches]


def sampled(command: Path, name: str) -> list[str]:
    """Return the ncu command that prints where the warps of one launch of the kernel `name` wait."""
    return [
        str(command), "--csv", "--page", "source", "--print-source", "cuda,sass",
        "--section", "SourceCounters",
        "--kernel-name-base", "function", "--kernel-name", f"regex:^{name}$", "--launch-count", "1",
    ]  # fmt: skip


def asked(command: Path, names: Iterable[str], metrics: Iterable[str]) -> list[str]:
    """Return the ncu command that prints a table of `metrics` for the kernels of `names`."""
    return [
        str(command), "--csv", "--print-units", "base", "--metrics", ",".join(metrics),
        "--kernel-name-base", "function", "--kernel-name", f"regex:^({'|'.join(names)})$",
        "--launch-count", str(LAUNCHES),
    ]  # fmt: skip


def own_names(profile: Profile) -> list[str]:
    """Return the candidate's own kernel names without template arguments and namespaces."""
    names = dict.fromkeys(plain(kernel.name) for kernel in profile.kernels if kernel.own)
    return [name for name in names if re.fullmatch(r"\w+", name)]


def judged(log: str, reduced: bool = False) -> Read:
    """Return the counters that ncu printed, or the reason why there are none."""
    launches = [launch._replace(reduced=reduced) for launch in parsed(log)]
    if launches:
        return Read(launches)
    if FORBIDDEN in log:
        why = (
            f"the driver keeps them to administrators ({FORBIDDEN}); its parameter "
            "NVreg_RestrictProfilingToAdminUsers=0 opens them"
        )
        return Read([], f"ncu's counters: {why}")
    said = [line.strip() for line in log.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))]
    last = said[-1] if said else sanitizer.last_line(log)
    return Read([], f"ncu's counters: it gave none: {last[:200]}")
