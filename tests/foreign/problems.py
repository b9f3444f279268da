"""Problems nobody here wrote, through everything that happens before a model is asked.

Each is traced, its prompt rendered, its sizes scaled for the emulator and the problem probed with wrong
answers, in a process of its own and with an empty cache: what an earlier version found does not count.
"""

import hashlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent import problems, prompts
from agent.errors import AgentError, ProblemError
from agent.executors import JudgeOptions, LocalExecutor
from agent.harness.task.job import Job
from agent.records import Admission, Candidate

from .documents import ROOT, WORDS, Entry, at_once

LEVELS = (1, 2, 3)
LIMIT_S = 900.0
"""Of one problem: a stop for what hangs, far beyond what any of them should take."""


def addresses(root: Path, levels: tuple[int, ...]) -> Iterator[str]:
    """`kernelbench:LEVEL/ID` for every problem of a checkout, in order. Raises ProblemError where none is."""
    for level in levels:
        numbers = sorted(
            int(number[0])
            for folder in (root / "KernelBench" / f"level{level}", root / f"level{level}")
            for file in folder.glob("*.py")
            if (number := re.match(r"\d+(?=_)", file.name))
        )
        if not numbers:
            raise ProblemError(f"{root} holds no problems of level {level}; --root names the checkout")
        yield from (f"kernelbench:{level}/{number}" for number in numbers)


def digest(address: str, root: Path) -> str:
    """Of the reference's text: an entry is one on this text."""
    return hashlib.sha256(problems.path(address, root).read_bytes()).hexdigest()[:16]


def identity(address: str) -> str:
    return "level" + address.removeprefix("kernelbench:")


def chosen(address: str, only: list[str]) -> bool:
    """Whether it is named: `level1`, `1/35` or `level1/35`; without names all are."""
    name = identity(address)
    return not only or bool({name, name.removeprefix("level"), name.partition("/")[0]} & set(only))


def examined_all(wanted: list[str], root: Path, jobs: int, limit_s: float = LIMIT_S) -> Iterator[Entry]:
    """One entry for each address, as soon as it is there, `jobs` at a time."""
    yield from at_once(lambda address: _apart(address, root, limit_s), wanted, jobs)


def _apart(address: str, root: Path, limit_s: float) -> Entry:
    """The entry that a process of its own gives; one that dies or hangs has that for a reason."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "tests.foreign", "problem", address, "--root", str(root)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            said, errors = process.communicate(timeout=limit_s)
            reason = _last_line(errors) or f"exit code {process.returncode}"
            entry = json.loads(said) if process.returncode == 0 else _fault(f"the process failed: {reason}")
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            entry = _fault(f"it took longer than {limit_s:g} s")
    took = {"seconds": round(time.monotonic() - begun, 1)}
    return {"id": identity(address), "digest": digest(address, root)} | entry | took


def examined(address: str, root: Path) -> Entry:
    """What becomes of one problem, in this process; no exception but for a fault of ours that has no name."""
    steps: dict[str, float] = {}
    entry: Entry = {"outcome": "not traced", "steps": steps}
    try:
        with _timed("trace", steps):
            problem = problems.load(address, kernelbench_root=root)
        entry |= {"outcome": "failed", "operators": len(problem.trace.operations)}
        with _timed("prompt", steps):
            prompt = prompts.render(problem, prompts.Situation(gpu="H200"))
        entry["prompt_tokens"] = prompts.estimate_tokens(prompt)
        with tempfile.TemporaryDirectory(prefix="kernelwright-foreign-") as cache:
            executor = LocalExecutor(
                "emulator", cache_dir=Path(cache), options=JudgeOptions(candidate_timeout_s=120.0)
            )
            with _timed("admission", steps):
                found = executor.admit(problem, anyway=True)
            entry |= _judged_at(executor.job(problem, Candidate(problem=problem.name, source="")))
            entry |= _admission(found)
    except ProblemError as fault:
        entry["reason"] = _words(fault, root)
    except AgentError as fault:
        entry |= {"outcome": "fault", "reason": _words(fault, root)}
    return entry


def _judged_at(job: Job) -> Entry:
    """The sizes that the emulator would judge a candidate at."""
    at = job.shrunken
    assert at is not None
    return {
        "shapes": "full" if at.full else "shrunken",
        "sizes": {name: list(pair) for name, pair in at.sizes.items() if pair[0] != pair[1]},
        "macs": at.trace.flops // 2,
        "affordable": problems.affordable(at.trace),
    }


def _admission(found: Admission) -> Entry:
    entry: Entry = {"tried": found.tried, "killed": found.killed, "tightened": list(found.tightened)}
    if found.survivors:
        listed = "; ".join(found.survivors)
        return entry | {"outcome": "refused", "reason": f"would be verified: {listed}"[:WORDS]}
    if found.note:
        return entry | {"outcome": "not probed", "reason": found.note[:WORDS]}
    return entry | {"outcome": "admitted"}


@contextmanager
def _timed(what: str, steps: dict[str, float]) -> Iterator[None]:
    begun = time.monotonic()
    try:
        yield
    finally:
        steps[what] = round(time.monotonic() - begun, 1)


def _words(fault: AgentError, root: Path) -> str:
    """The reason without the place of the checkout."""
    return str(fault).replace(f"{root}/", "")[:WORDS]


def _fault(reason: str) -> Entry:
    return {"outcome": "fault", "reason": reason[:WORDS], "steps": {}}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
