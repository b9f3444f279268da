"""What findings of the emulator say of the calls before."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.harness.backends.backend import Backend
from agent.harness.messages import worker_answers
from agent.harness.task import faults
from agent.harness.task.call_limits import CallLimits
from agent.harness.task.faults import Refused
from agent.harness.task.job import Job
from agent.harness.trial.worker_client import WorkerClient
from agent.records import Candidate, Problem, Trace
from agent.sandbox import Child

EMPTY = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
READ = {"kind": "global-out-of-bounds-read", "message": "Reads past the end.", "severity": "error"}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkerClient:
    monkeypatch.setattr(worker_answers, "ask", lambda *_, **__: {})
    backend = SimpleNamespace(
        building=SimpleNamespace(granted=lambda: None),
        raise_build_failure=lambda error: None,
        resolve=lambda claims: claims or [],
        locate=lambda finding: finding,
    )
    job = Job(
        problem=Problem(name="p", source="", trace=EMPTY), candidate=Candidate(problem="p", source=""),
        executor="emulator", candidate_timeout_s=1.0, cache_dir=str(tmp_path),
    )  # fmt: skip
    return WorkerClient(cast(Child, None), job, EMPTY, tmp_path, cast(Backend, backend), CallLimits(job))


def call(client: WorkerClient, *, checked: bool, finds: tuple[dict[str, Any], ...] = ()) -> None:
    client.tell({"do": "call", "checked": checked}, "running forward")
    client.check({"launches": 1, "device_findings": list(finds)}, "run", "forward failed")


@pytest.mark.parametrize(
    ("before", "told"), [((), False), ((False,), False), ((True,), True), ((True, False), True)]
)
def test_a_finding_says_whether_a_checked_call_stood_before(
    client: WorkerClient, before: tuple[bool, ...], told: bool
) -> None:
    for checked in before:
        call(client, checked=checked)
    with pytest.raises(Refused) as caught:
        call(client, checked=True, finds=(READ,))
    assert caught.value.findings[0].kind == READ["kind"]
    assert (faults.SOME_CALLS in caught.value.findings) is told
