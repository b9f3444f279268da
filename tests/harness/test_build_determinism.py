"""What a file asks to have built is the same at its second import, or it is refused."""

from pathlib import Path

import pytest

from agent.build.build_request import BuildRequest
from agent.emulator.compile import toolchain
from agent.harness.backends.candidate_process import CandidateProcess
from agent.harness.backends.emulator import EmulatorBackend
from agent.harness.backends.workspace import workspace
from agent.harness.confirmation import build_determinism
from agent.harness.task.faults import Refused
from agent.harness.task.job import Job
from agent.records import Candidate, Problem, Trace

EMPTY = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
FILE = """import os
import torch
from torch.utils.cpp_extension import load_inline

chance = os.urandom(8).hex()
ext = load_inline(name="NAME", cpp_sources="int one(); // SOURCE", cuda_sources="int one() { return 1; }",
                  functions=["one"])


class ModelNew(torch.nn.Module):
    pass
"""


def job(tmp_path: Path, **changes: str) -> Job:
    source = FILE
    for word in ("NAME", "SOURCE"):
        source = source.replace(word, changes.get(word, "same"))
    source = source.replace('"int one(); // ', 'f"int one(); // ').replace('name="', 'name=f"')
    return Job(
        problem=Problem(name="p", source="", trace=EMPTY),
        candidate=Candidate(problem="p", source=source),
        executor="emulator",
        candidate_timeout_s=60,
        cache_dir=str(tmp_path),
    )


def use_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's prepared headers, with builds in the test's own cache."""
    prepare = toolchain.prepare
    monkeypatch.setattr(toolchain, "prepare", lambda cache, **_: prepare())


def check(made: Job, asked: tuple[BuildRequest, ...] | None = None) -> None:
    """Both passes over the file; `asked` stands for what the first one would ask for."""
    with (
        workspace(made.candidate, EMPTY, EmulatorBackend) as folder,
        CandidateProcess(made, EMPTY, folder) as process,
    ):
        assert "error" not in process.load()
        assert process.backend is not None
        build_determinism.check(process, tuple(process.backend.requests) if asked is None else asked)


def test_a_name_of_its_own_at_every_import_is_legal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_prepared(monkeypatch)
    check(job(tmp_path, NAME="made_{chance}"))


def test_sources_have_to_be_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_prepared(monkeypatch)
    with pytest.raises(Refused, match="cpp_sources of extension `same` changed") as caught:
        check(job(tmp_path, SOURCE="{chance}"))
    [finding] = caught.value.findings
    assert (caught.value.status, caught.value.stage) == ("rejected", "integrity")
    assert finding.kind == "sources-changed"


def test_an_extension_more_at_the_second_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_prepared(monkeypatch)
    with pytest.raises(Refused, match="it asked for 0 extensions, then for 1"):
        check(job(tmp_path), asked=())
