"""A candidate is accepted only where its own kernels, repeated without its host code, give the result."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from harness.replay_cases import ATTACKS, HONEST, Case, reference

from agent import config
from agent.build.build_request import BuildRequest
from agent.build.toolchain import Toolchain
from agent.emulator.compile import build, toolchain
from agent.emulator.replay import device_library
from agent.harness.backends.emulator import EmulatorBackend
from agent.harness.backends.workspace import replay_folder, workspace
from agent.harness.integrity import call_records, replay_check, replay_evidence, replay_findings
from agent.harness.messages import commands, oracle_commands
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.oracle.server import Oracle
from agent.harness.oracle.transport import Files
from agent.records import Candidate, Finding, Trace
from agent.sandbox import Child, Limits

EMPTY = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)


class Driver:
    """The process that makes first calls, and the judge's side of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools: Toolchain = toolchain.prepare()
        self.libraries: list[Path] = []
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("first_call.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=config.child_environment(),
        )  # fmt: skip

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(200)

    def call(self, source: str, folder: Path, commands: list[dict[str, Any]]) -> dict[str, Any]:
        self.libraries = []
        settings = {"runtime": str(self.tools.runtime), "threads": 2, "patience_s": 60.0}
        self._send({"folder": str(folder), "settings": settings, "commands": commands})
        while True:
            answer = self._receive()
            if answer.get("request") != "build":
                return answer
            request = BuildRequest(candidate_source=source, **answer["build"])
            built = build.extension(self.tools, request, self.folder)
            assert built.library is not None, built.findings
            self.libraries.append(built.library)
            self._send({"library": str(built.library)})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return cast(dict[str, Any], json.loads(self._process.stdout.readline()))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    made = Driver(tmp_path_factory.mktemp("builds"))
    yield made
    made.close()


class Answering:
    """The oracle, in the place of its process."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def ask(self, command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        return self._oracle.answer(json.dumps(command))


def judged(driver: Driver, case: Case, place: Path, family: str | None = None) -> list[Finding]:
    """What own_kernels says of the case's first call, whose output is right."""
    source = place / "reference.py"
    source.write_text(reference(case.kind))
    candidate = Candidate(problem=case.kind, source=case.candidate, origin="file")
    with workspace(candidate, EMPTY, EmulatorBackend) as folder:
        oracle = Oracle(source, folder, "cpu", Files(folder))
        parameters = oracle.handle(oracle_commands.Parameters(1, "set0"))
        drawn = oracle.handle(oracle_commands.Draw(2, "draw1", family))
        before = [commands.load(), commands.instance(parameters)]
        call = commands.call(drawn, "out", send_back="after", checked=True, keep_all=True)
        answer = driver.call(case.candidate, folder, [*before, call])
        assert "outputs" in answer, answer.get("error")
        client = OracleClient(cast(Child, Answering(oracle)), "a problem")
        assert client.fits(answer["outputs"])
        segment = call_records.read(folder / call_records.RECORD)
        tree = answer["outputs"]["tree"]
        recorded = replay_check.Recorded([segment], 0, (), 1, 2, 3, family, tree)
        evidence = replay_check.Evidence(
            libraries=driver.libraries, runtime=driver.tools.runtime, setting=case.setting, oracle=client,
            folder=replay_folder(folder), environment=config.candidate_environment(),
            limits=Limits(), only_fresh=False, timeout_s=60,
        )  # fmt: skip
        found, may_be_stale, _ = replay_evidence.on_fresh_inputs(recorded, evidence)
        return [] if may_be_stale and replay_evidence.on_its_own_inputs(recorded, evidence) else found


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case.name)
def test_kernels_that_compute_the_result_are_accepted(driver: Driver, case: Case, tmp_path: Path) -> None:
    assert judged(driver, case, tmp_path) == []


@pytest.mark.parametrize("case", ATTACKS, ids=lambda case: case.name)
def test_a_result_from_elsewhere_is_refused(driver: Driver, case: Case, tmp_path: Path) -> None:
    [finding] = judged(driver, case, tmp_path)

    assert case.refused is not None
    assert case.refused in f"{finding.message} {finding.evidence}"


def test_the_refusal_names_the_line_of_the_operator(driver: Driver, tmp_path: Path) -> None:
    case = ATTACKS[0]

    [finding] = judged(driver, case, tmp_path)

    assert finding.kind == "own-kernels-do-not-compute-the-result"
    assert finding.location is not None
    line = case.candidate.splitlines()[(finding.location.line or 0) - 1]
    assert "F.gelu" in line


def test_a_file_that_is_no_library_is_not_loadable() -> None:
    with pytest.raises(device_library.NotLoadable, match="no 64-bit ELF file"):
        device_library.without_initialisers(b"#!/bin/sh\n" * 20)


FAINT = "minute"
"""A family of inputs whose softmax is the same whatever they are."""


OF_SOFTMAX = [case for case in (*HONEST, *ATTACKS) if case.kind == "softmax"]


@pytest.mark.parametrize("case", OF_SOFTMAX, ids=lambda case: case.name)
def test_inputs_that_all_give_the_same_prove_nothing(driver: Driver, case: Case, tmp_path: Path) -> None:
    """What the host copied is right for other such inputs as well; what a kernel computes is accepted."""
    found = judged(driver, case, tmp_path, FAINT)
    assert [finding.kind for finding in found] == [replay_findings.FOREIGN] * bool(case.refused)
