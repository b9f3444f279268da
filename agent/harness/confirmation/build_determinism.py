"""Determinism of builds: a second process that imports the candidate has to request identical sources.

A candidate whose sources depend on the time, on chance or on earlier requests would run unverified kernels
at its next import.
"""

from collections.abc import Sequence

from agent.build.build_request import BuildRequest
from agent.harness.backends import build_watch
from agent.harness.backends.candidate_process import CandidateProcess
from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import instance, to_oracle, to_worker
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task.job import secret_seed
from agent.harness.worker import worker_commands
from agent.sandbox import ChildFault

# An extension's name may change: many candidates make one up to bypass torch's own cache.
_COMPARED = [part for part in BuildRequest.model_fields if part != "name"]
STEM = "second"


def check(process: CandidateProcess, asked: Sequence[BuildRequest]) -> None:
    """Raise Refused if a second import, by `process`, requests other builds than `asked`."""
    try:
        answer = process.load()
    except ChildFault as fault:
        raise build_watch.changed(f"imported a second time, the file {fault}") from None
    assert process.backend is not None
    requests = process.backend.requests
    if "error" in answer:
        raise build_watch.changed("imported a second time, the file raises an error")
    if len(requests) != len(asked):
        raise build_watch.changed(f"it asked for {len(asked)} extensions, then for {len(requests)}")
    for first, second in zip(asked, requests, strict=True):
        parts = [part for part in _COMPARED if getattr(first, part) != getattr(second, part)]
        if parts:
            raise build_watch.changed(f"{', '.join(parts)} of extension `{first.name[:80]}` changed")


def check_later(
    process: CandidateProcess, asked: Sequence[BuildRequest], oracle: OracleClient, limit_s: float
) -> None:
    """Raise Refused if the builds of `__init__` and forward depend on the parameters or the inputs.

    `process` has imported the file already. `asked` holds all requests of the first process.
    """
    place = str(process.folder / STEM)
    manifest = oracle.ask(to_oracle(oracle_commands.Parameters(secret_seed(), f"{place}-set")))
    drawn = oracle.ask(to_oracle(oracle_commands.Draw(secret_seed(), place, as_files=True)))
    call = to_worker(worker_commands.Beside("try", drawn["inputs"], f"{STEM}-out"))
    try:
        answers = [process.ask(instance(manifest), limit_s), process.ask(call, limit_s)]
    except ChildFault as fault:
        raise build_watch.changed(f"run a second time, the file {fault}") from None
    if any("error" in answer for answer in answers):
        raise build_watch.changed("run a second time, the file raises an error")
    assert process.backend is not None
    first, second = build_watch.distinct(asked), build_watch.distinct(process.backend.requests)
    if first.keys() != second.keys():
        other = next(r for key, r in (first | second).items() if key not in first or key not in second)
        raise build_watch.changed(f"extension `{other.name[:80]}` is another one in another process")
