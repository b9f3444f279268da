"""Resources of a trial that the replay of its recorded calls needs."""

from pathlib import Path

from agent.emulator.replay import host_words
from agent.harness.backends import workspace
from agent.harness.backends.backend import Backend
from agent.harness.integrity.replay_check import Evidence
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task.job import Job
from agent.records import Trace


def evidence(
    job: Job, backend: Backend, folder: Path, trace: Trace, oracle: OracleClient
) -> Evidence | None:  # fmt: skip
    """Return what a replay needs of the trial, such as libraries and limits; None if nothing is replayed.

    The caller replaces the fields `timeout_s`, `only_fresh` and `on_a_gpu` of the result.
    """
    replayed = backend.replayed()
    if replayed is None:
        return None
    return Evidence(
        libraries=replayed.libraries, runtime=replayed.runtime,
        setting=job.library_ops, oracle=oracle, folder=workspace.replay_folder(folder),
        environment=backend.environment(folder), limits=backend.limits(trace),
        only_fresh=True, timeout_s=0.0,
        server=job.servers.for_candidates("emulator"),
        most_words=host_words.most(trace),
        checks=job.protocol in ("full", "reduced") and not job.unchecked,
    )  # fmt: skip
