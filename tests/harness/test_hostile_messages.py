"""Whatever a candidate's process writes is an answer or the candidate's fault, and never an exception.

A short sample belongs to every run; `--fuzz-minutes 10` is the long one, with other documents each time.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import hypothesis
import pytest
import torch
from harness import hostile_messages
from hypothesis import strategies as st

from agent.build import refusals
from agent.build.build_request import BuildRequest
from agent.build.outcome import Built
from agent.diagnosis.runtime import illegal_launches, python_errors, timeouts
from agent.emulator.replay import calls, events, host_words, player_commands, program
from agent.errors import EnvironmentFault
from agent.harness.backends import build_watch
from agent.harness.backends.backend import Backend, BuildingBackend
from agent.harness.integrity import kernel_attribution, real_shapes, replay_check, replay_findings
from agent.harness.messages import commands, device_answers, worker_answers
from agent.harness.task import faults
from agent.harness.task.faults import Refused
from agent.harness.task.job import Job
from agent.harness.trial import kernel_coverage, optional_checks
from agent.harness.truth import output_structure, parameter_names
from agent.harness.worker import wire
from agent.records import Candidate, Finding, Trace
from agent.sandbox import Child, ChildFault, messages

EMPTY = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)
SOURCE = "import torch\nkernel<<<grid, block>>>(x);\n"
LIBRARY = {"/built/extension.so": (0, {64})}
NATIVE = torch.zeros(3)
Take = Callable[[bytes], None]


class Process:
    """Says one line, and whatever it asks for before is another."""

    def __init__(self, line: bytes, asks: bytes | None = None) -> None:
        self._line, self._asks = line, asks

    def ask(self, message: Any, timeout_s: float, serve: Any, *, granted: Any) -> Any:
        if self._asks is not None:
            serve(_object(self._asks))
        return _object(self._line)

    def kill(self) -> None:
        pass


class Judge(BuildingBackend):
    """The part of a backend that reads what the candidate's process says."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.requests: list[BuildRequest] = []
        self._builds: list[Built] = []
        self._job = cast(
            Job, SimpleNamespace(candidate=Candidate(problem="p", source=SOURCE), library_ops="gemm-conv")
        )

    def serve(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            request = BuildRequest(candidate_source=SOURCE, **message["build"])
        except (TypeError, ValueError) as error:
            return {"error": f"{error}"}
        build_watch.too_many(self.requests, request)
        stored(list(refusals.of_request(request)))
        build_watch.screened(request, self._job.candidate, self._job.library_ops)
        return {}


def _object(line: bytes) -> dict[str, Any]:
    """As `Child` reads it."""
    document = messages.plain(line)
    if not isinstance(document, dict):
        raise ChildFault("not a message")
    return document


def stored(findings: list[Finding]) -> None:
    """What the judge's own answer and the transcript do with findings."""
    for finding in findings:
        json.dumps(finding.model_dump(mode="json")).encode()
        finding.model_dump_json()


def told(command: dict[str, Any], device: str) -> Take:
    """Reads a line as the answer to a command, and does with it what the judge does."""

    def take(line: bytes) -> None:
        backend = Judge(device)
        answer = worker_answers.ask(cast(Child, Process(line)), cast(Backend, backend), command, 1.0)
        found = faults.device_findings(backend.resolve(answer.get("device_findings")), backend.locate)
        found = [illegal_launches.because(finding, SOURCE, EMPTY) for finding in found]
        if "error" in answer:
            found.append(python_errors.finding(answer["error"], "it failed", SOURCE, EMPTY))
        stored(found)
        real_shapes._notes(answer)
        for kernel in kernel_coverage.kernels(answer):
            kernel_coverage.short(kernel)
        if "held" in answer:
            parameter_names.claimed(answer["held"])
        if command["do"] == "profile" and "kernels" in answer:
            kernel_attribution.profile(answer["kernels"], {"k"})
        if "untraceable" in answer:
            optional_checks._refuse_untraceable(answer["untraceable"], SOURCE)
        outputs = answer.get("outputs")
        if outputs is not None:
            fault = output_structure.fault(wire.checked(outputs), NATIVE)
            stored([fault] if fault else [])
        if command["do"] == "call" and outputs is not None:
            commands.judged(outputs, answer, "after", repeat=False)
            faults.overlapping(answer["overlaps"], [[]] * len(answer["overlaps"]))
            faults.foreign_output(answer["types"], answer["devices"])

    return take


def asked(line: bytes) -> None:
    backend = Judge("cpu")
    worker_answers.ask(
        cast(Child, Process(b"{}", line)), cast(Backend, backend), {"do": "load", "name": "m"}, 1.0
    )


def recorded(line: bytes) -> None:
    before = '{"do": "given", "what": "inputs", "index": 0, "to": 35184372088832, "bytes": 128}\n'
    segment = calls.segment(before + line.decode("utf-8", "replace"))
    calls.difference(calls.behaviour(segment), calls.behaviour(calls.Segment([], [])))
    host_words.passed([segment, segment], 0, [1])
    found = program.read(calls.alone([segment, segment], 1, earlier="all"), LIBRARY, "gemm-conv")
    json.dumps([*found.before, *found.after])
    found.last_writer()
    replay_findings.foreign(found, "none")


def played(line: bytes) -> None:
    replay_check._check(_object(line), trusted=False)


def said(line: bytes) -> None:
    """What a process has printed, and left in the file that says which kernel runs."""
    text = line.decode("utf-8", "replace")
    for log in (text, f'File "x/candidate.py", line {text}', f'File "x/candidate.py", line {"9" * 5000} in'):
        timeouts.finding("no answer", timeouts.LastWords(log, None, None, SOURCE))


def _answer(command: dict[str, Any], device: str) -> hostile_messages.Documents:
    """Of a kind that the command may be answered with, or a failure."""
    wanted = worker_answers.expected(command, device)
    kinds = [wanted.kind, worker_answers.Failed, *([wanted.other[1]] if wanted.other else [])]
    told_of = hostile_messages.of(device_answers.Device) if device == "cpu" else st.just({})
    return st.tuples(st.one_of(list(map(hostile_messages.of, kinds))), told_of).map(
        lambda two: two[0] | two[1]
    )


_BUILD = st.fixed_dictionaries(
    {
        "name": st.just("made"),
        "cpp_sources": st.lists(st.just("int f();") | hostile_messages.TEXT, max_size=2),
    },
    optional={
        "functions": st.lists(hostile_messages.TEXT, max_size=2), "log": hostile_messages.TEXT,
        "cuda_sources": st.lists(hostile_messages.TEXT, max_size=2), "seconds": hostile_messages.FLOATS,
        "extra_cuda_cflags": st.lists(hostile_messages.TEXT | st.sampled_from(["-D", "-O3"]), max_size=3),
    },
)  # fmt: skip
_COMMANDS: list[tuple[dict[str, Any], str]] = [
    ({"do": "load", "name": "m"}, "cpu"), ({"do": "instance"}, "cpu"), ({"do": "call", "stem": "out"}, "cpu"),
    ({"do": "real_shapes"}, "cpu"), ({"do": "kernels"}, "cpu"), ({"do": "call", "stem": "out"}, "cuda"),
    ({"do": "beside", "what": "traced"}, "cpu"), ({"do": "beside", "what": "gradients"}, "cpu"),
    ({"do": "beside", "what": "operators"}, "cpu"), ({"do": "profile"}, "cuda"), ({"do": "ablate"}, "cuda"),
    ({"do": "timed"}, "cuda"), ({"do": "row"}, "cuda"), ({"do": "further"}, "cpu"),
]  # fmt: skip
READERS: dict[str, tuple[hostile_messages.Documents, Take]] = {
    "a request": (st.fixed_dictionaries({"request": st.just("build"), "build": _BUILD}), asked),
    "the record of a call": (hostile_messages.of(events.Event), recorded),
    "the player": (hostile_messages.of(player_commands.Failed | player_commands.NotRepeatable), played),
    "last words": (hostile_messages.TEXT, said),
} | {
    " ".join(map(str, (*command.values(), device))): (_answer(command, device), told(command, device))
    for command, device in _COMMANDS
}
CANDIDATES_FAULT = (
    ChildFault, messages.Malformed, events.Forged, Refused, wire.WireError, replay_check.Unrepeatable,
    replay_check.Forgery,
)  # fmt: skip


@pytest.mark.timeout(0)
@pytest.mark.parametrize("reader", READERS)
def test_no_line_of_a_candidates_process_raises_an_exception_of_ours(
    reader: str, request: pytest.FixtureRequest
) -> None:
    documents, take = READERS[reader]
    seconds = 60 * float(request.config.getoption("--fuzz-minutes")) / len(READERS)

    def whatever_it_says(line: bytes) -> None:
        with contextlib.suppress(*CANDIDATES_FAULT):
            take(line)

    def tried(seed: int, examples: int) -> None:
        limits = hypothesis.settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        given = hypothesis.given(hostile_messages.lines(documents))(whatever_it_says)
        limits(hypothesis.seed(seed)(given))()

    tried(0, 25)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tried(int.from_bytes(os.urandom(8), "little"), 500)


NESTED = b'{"request": ' + b"[" * 1200 + b"]" * 1200 + b"}"


@pytest.mark.parametrize(
    "line", [b'{"request": 1}', NESTED, b'{"device_findings": [{"count": "many"}]}', b"9" * 5000]
)
@pytest.mark.parametrize("reader", ["call out cpu", "a request", "the player", "the record of a call"])
def test_lines_that_once_ended_the_judge_are_the_candidates_fault(reader: str, line: bytes) -> None:
    with pytest.raises(CANDIDATES_FAULT):
        READERS[reader][1](line)


def test_what_the_documents_are_made_of_is_mostly_read() -> None:
    """Else the readers would be tried with nothing but what the first check refuses."""
    read = 0

    @hypothesis.settings(
        max_examples=60, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.seed(0)
    @hypothesis.given(hostile_messages.of(device_answers.Device))
    def whatever(document: Any) -> None:
        nonlocal read
        with contextlib.suppress(messages.Malformed):
            messages.read(messages.plain(json.dumps(document)), device_answers.Device)
            read += 1

    whatever()
    assert read > 10


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert messages.plain(b'{"a\\ud800": ["\\udc80b", "\\ud83d\\ude00"]}') == {"a?": ["?b", "\U0001f600"]}


def test_the_player_is_trusted_until_kernels_have_run() -> None:
    for answer in ({"request": 1}, {"error": "KeyError", "traceback": "t"}, {"error": 1}):
        with pytest.raises(EnvironmentFault, match="bug in kernelwright"):
            replay_check._check(answer, trusted=True)
        with pytest.raises(replay_check.Forgery):
            replay_check._check(answer, trusted=False)
    with pytest.raises(replay_check.Unrepeatable, match="why"):
        replay_check._check({"not_repeatable": "why"}, trusted=True)


def test_the_line_of_a_finding_may_be_any_number(tmp_path: Path) -> None:
    for line in (-(10**9), 0, 10**9):
        error = {"type": "E", "message": "m", "line": line, "traceback": "", "kind": None}
        assert python_errors.finding(error, "d", SOURCE).kind == "python-error"
