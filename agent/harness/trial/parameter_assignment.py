"""Assignment of parameters for a candidate whose parameter names differ from the reference's.

The names, shapes and dtypes that the candidate's process claims determine the possible assignments
(`parameter_names`). If several assignments are possible, each is tried on draws of the oracle, and only the
bytes of the outputs decide. The oracle then passes the parameters under the chosen names for the whole trial.
This lets no wrong candidate pass: one that computes the reference's function under some assignment is right.
"""

from collections.abc import Callable
from typing import Any

from agent.diagnosis.runtime import python_errors
from agent.harness.backends.candidate_process import CandidateProcess
from agent.harness.backends.workspace import workspace
from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import instance, to_oracle, to_worker
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task.faults import Refused
from agent.harness.task.job import Job, secret_seed
from agent.harness.trial.optional_checks import described
from agent.harness.trial.worker_client import WorkerClient
from agent.harness.truth.parameter_names import Names, claimed
from agent.harness.worker import worker_commands
from agent.records import Finding, Status, Trace
from agent.sandbox import ChildFault

KIND = "state-dict-mismatch"
STEM = "named"
_DRAWS = 3
"""Maximum number of draws, each with new parameters and inputs, while several assignments remain right."""

Tell = Callable[[dict[str, Any]], dict[str, Any]]


def misfits(answer: dict[str, Any]) -> bool:
    """Return True if the answer reports a ModelNew whose state_dict does not match the reference's."""
    error = answer.get("error")
    return isinstance(error, dict) and error.get("kind") == KIND and "held" in answer


def found(
    job: Job, trace: Trace, candidate: WorkerClient, oracle: OracleClient, answer: dict[str, Any]
) -> Names:
    """Choose an assignment, hand its names to the oracle, and return them.

    `answer` is a worker's for which `misfits` is true. Raises Refused if no assignment fits.
    """
    held = claimed(answer["held"])
    ways = oracle.ask(to_oracle(oracle_commands.Ways(list(held or []))))
    if held is None or "none" in ways:
        raise Refused(Status.RUNTIME_ERROR, "run", [_mismatch(answer, ways.get("none"), job, trace)])
    fitting: list[Names] = ways["ways"]
    if len(fitting) > 1:
        fitting = _tried(job, trace, candidate, oracle, fitting)
    oracle.ask(to_oracle(oracle_commands.Name(fitting[0])))
    return fitting[0]


def _mismatch(answer: dict[str, Any], why: str | None, job: Job, trace: Trace) -> Finding:
    finding = python_errors.finding(answer["error"], "creating ModelNew failed", job.candidate.source, trace)
    said = f" No assignment by shape fits either: {why}." if why else ""
    return finding.model_copy(update={"message": finding.message + said})


def _tried(
    job: Job, trace: Trace, candidate: WorkerClient, oracle: OracleClient, ways: list[Names]
) -> list[Names]:
    """Return the assignments whose outputs are right on every draw, or all assignments if none is right."""
    if candidate.backend.device == "cuda":

        def told(command: dict[str, Any]) -> dict[str, Any]:
            return candidate.tell(command, "trying names of parameters")

        return _narrowed(ways, told, oracle, "")
    # On the emulator, everything up to the judged process's first call is recorded; use another process.
    with (
        workspace(job.candidate, trace, candidate.backend) as folder,
        CandidateProcess(job, trace, folder) as process,
    ):

        def tell(command: dict[str, Any]) -> dict[str, Any]:
            return process.ask(command, job.candidate_timeout_s)

        try:
            loaded = "error" not in process.load()
            return _narrowed(ways, tell, oracle, f"{folder}/") if loaded else ways
        except ChildFault:
            return ways


def _narrowed(ways: list[Names], tell: Tell, oracle: OracleClient, place: str) -> list[Names]:
    """Return the assignments that draws leave; `place` is the prefix of the paths of tensor files."""
    left = ways
    for number in range(_DRAWS):
        seeds = secret_seed(), secret_seed()
        right = [names for names in left if _is_right(names, seeds, tell, oracle, f"{place}{STEM}{number}")]
        left = right or left
        if len(right) < 2:
            break
    return left


def _is_right(names: Names, seeds: tuple[int, int], tell: Tell, oracle: OracleClient, stem: str) -> bool:
    """Return True if ModelNew gives the reference's output on one draw under the assignment `names`."""
    oracle.ask(to_oracle(oracle_commands.Name(names)))
    manifest = oracle.ask(to_oracle(oracle_commands.Parameters(seeds[0], f"{stem}-set")))
    drawn = oracle.ask(to_oracle(oracle_commands.Draw(seeds[1], f"{stem}-in", as_files=True)))
    if "error" in tell(instance(manifest)):
        return False
    out = f"{stem}-out"
    answer = tell(to_worker(worker_commands.Beside("try", drawn["inputs"], out)))
    if "error" in answer:
        return False
    outputs = described(answer, "outputs", out)
    verdict = oracle.weigh(to_oracle(oracle_commands.CompareFiles(outputs)))
    return "finding" not in verdict
