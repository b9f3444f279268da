"""Run the tracer in a child process with a time limit, and turn its failures into errors.

The child gets a scrubbed environment, an empty folder and no standard streams. It runs in a session of its
own and is killed with everything it started. Its answer counts only if its result file is complete.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent import config
from agent.errors import EnvironmentFault, ProblemError
from agent.problems.planning import Limits
from agent.problems.scaling import Plan
from agent.records import Problem, Trace

_START_S = 120
"""Seconds allowed on top of the limit: on a busy machine, importing torch alone takes many seconds."""
_POLL_S = 0.02


def trace(source: str, shown_as: str, time_limit_s: float) -> Trace:
    """Return the trace of a reference; `shown_as` names the file in messages.

    Raises ProblemError with file and line if the reference raises, hangs or exits. Raises EnvironmentFault if
    the child itself fails.
    """
    result = run({"kind": "trace", "source": source}, shown_as, time_limit_s)
    return Trace.model_validate_json(result["trace"])


def plan(problem: Problem, tiers: tuple[Limits, ...], time_limit_s: float) -> Plan | None:
    """Find smaller sizes in a tracing child: the least within the first of `tiers` that has any.

    Returns None if no tier has any. Raises EnvironmentFault if the child fails or does not end, because the
    reference has already run at its real sizes.
    """
    job = {
        "kind": "plan",
        "source": problem.source,
        "trace": problem.trace.model_dump_json(),
        "tiers": [limits.model_dump(mode="json") for limits in tiers],
    }
    try:
        result = run(job, problem.name, time_limit_s)
    except ProblemError as error:
        raise EnvironmentFault(f"no sizes were found to judge at: {error}; please report it") from error
    return None if result["plan"] is None else Plan.model_validate_json(result["plan"])


def run(
    job: dict[str, Any], shown_as: str, time_limit_s: float, module: str = "agent.problems.tracer"
) -> dict[str, Any]:
    """Run the program `module` on a job and return its result; see `tracer.main` for how it ends.

    Raises ProblemError and EnvironmentFault as `trace` does.
    """
    with tempfile.TemporaryDirectory(prefix="kernelwright-trace-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "job.json").write_text(json.dumps({**job, "time_limit_s": time_limit_s}), encoding="utf-8")
        status = _wait(folder, module, time_limit_s + _START_S)
        result = _read(folder / "result.json")
        if not result:
            raise _end(folder, status, shown_as, time_limit_s)
    if "defect" in result:
        defect = EnvironmentFault(
            f"the tracer failed on {shown_as}: {result['defect']['message']}; please report it"
        )
        defect.add_note(result["defect"]["detail"])
        raise defect
    if "fault" in result:
        fault = result["fault"]
        error = ProblemError(f"{_place(shown_as, fault['line'])}: {fault['message']}")
        if fault["detail"]:
            error.add_note(fault["detail"])
        raise error
    return result


def _wait(folder: Path, module: str, limit_s: float) -> int | None:
    """Run the child until it ends and return its exit status; None if it had to be killed."""
    inherited = config.child_environment()
    environment = inherited | {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONPATH": config.with_package(inherited),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",  # `torch.compile` in a reference would hide its operators
    }
    command = [sys.executable, "-P", "-s", "-m", module, str(folder)]
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    deadline = time.monotonic() + limit_s
    try:
        while time.monotonic() < deadline:
            # WNOWAIT leaves the child unreaped, so its process group id cannot be reused before killpg.
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(_POLL_S)
        else:
            return None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    return status


def _end(
    folder: Path, status: int | None, shown_as: str, time_limit_s: float
) -> ProblemError | EnvironmentFault:
    """Return the error for a child that left no result."""
    step = _text(folder / "step") or "the tracer"
    stack = _text(folder / "stack")
    line = _stack_line(stack)
    exited = _read(folder / "exit")
    if exited:
        return ProblemError(f"{_place(shown_as, exited['line'])}: {step} ends the process (os._exit)")
    if status is None or "Timeout (" in stack:
        return ProblemError(f"{_place(shown_as, line)}: {step} did not finish within {time_limit_s:g} s")
    if not (folder / "step").exists():
        last = (_text(folder / "stderr").strip().splitlines() or [f"exit status {status}"])[-1]
        return EnvironmentFault(
            f"the tracer does not start with {sys.executable}: {last}; `agent doctor` shows more"
        )
    if status < 0:
        cause = f"was killed by {signal.Signals(-status).name}"
        return ProblemError(
            f"{_place(shown_as, line)}: {step} {cause}" + (", out of memory?" * (status == -9))
        )
    return ProblemError(f"{_place(shown_as, line)}: {step} ended the process with status {status}")


def _stack_line(stack: str) -> int | None:
    found = re.search(r'File "<reference>", line (\d+)', stack)
    return int(found[1]) if found else None


def _place(shown_as: str, line: int | None) -> str:
    return f"{shown_as}:{line}" if line else shown_as


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _read(path: Path) -> dict[str, Any]:
    content = json.loads(_text(path) or "{}")
    return content if isinstance(content, dict) else {}
