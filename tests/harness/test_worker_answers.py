"""Answers of the candidate's process are read strictly: what is not as it has to be is no answer."""

from typing import Any, cast

import pytest

from agent.harness.backends.backend import Backend
from agent.harness.messages import worker_answers
from agent.harness.messages.worker_answers import ask
from agent.sandbox import Child, ChildFault

Answer = dict[str, Any]
SPEC = {"shape": [2], "dtype": "float32"}
FINDING = {
    "kind": "out-of-bounds", "message": "m", "kernel": "k", "line": 3, "block": [0, 0, 0], "thread": None,
    "count": 2, "severity": "error", "place": {"library": "/x.so", "offset": 4}, "other": None,
}  # fmt: skip
DEVICE = {"launches": 1, "device_findings": [FINDING]}
RAISED = {"type": "ValueError", "message": "m", "line": None, "traceback": "t", "kind": None}
CALLED = {
    "overlaps": [[]], "types": ["Tensor"], "devices": ["cpu"], "written_bands": [],
    "outputs": {"stem": "out", "tree": ["tensor", 0], "tensors": [SPEC]},
}  # fmt: skip
MISFIT = RAISED | {"kind": "state-dict-mismatch"}
COPIED = {"tree": ["tensor", 0], "tensors": [SPEC], "there": True, "stem": None}
TIMED = {
    "ms": 0.5, "host_ms": 0.1, "is_late": False, "outputs": COPIED, "types": ["Tensor"], "devices": ["cuda"],
}  # fmt: skip


CALL = {"do": "call", "stem": "out"}


class Process:
    """Answers once; `asks` is a request of its own before."""

    def __init__(self, answer: Answer, asks: Answer | None = None) -> None:
        self._answer, self._asks = answer, asks
        self.killed = False

    def ask(self, message: Answer, timeout_s: float, serve: Any, *, granted: Any) -> Answer:
        if self._asks is not None:
            serve(self._asks)
        return self._answer

    def kill(self) -> None:
        self.killed = True


class OnCpu:
    device = "cpu"

    def __init__(self) -> None:
        self.served: list[Answer] = []

    def serve(self, message: Answer) -> Answer:
        self.served.append(message)
        return {}


class OnGpu(OnCpu):
    device = "cuda"


def answered(command: Answer, answer: Answer, backend: OnCpu | None = None) -> Answer:
    return ask(cast(Child, Process(answer)), cast(Backend, backend or OnCpu()), command, 1.0)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ({"do": "load", "name": "my_model"}, {"torch": "2"}),
        ({"do": "load", "name": "my_model"}, {"error": RAISED}),
        ({"do": "instance"}, {}),
        ({"do": "instance"}, {"error": MISFIT, "held": [["w", [1], "float32", True]]}),
        (CALL, CALLED),
        ({"do": "beside", "what": "traced"}, {"untraceable": "why"}),
        ({"do": "beside", "what": "operators"}, {"refused": [["op", "why"]], "unchecked": []}),
        ({"do": "real_shapes"}, {"notes": [], "kernels": [{"kernel": "k"}], "operators": ["mm"]}),
    ],
)  # fmt: skip
def test_what_the_worker_says_is_an_answer(command: Answer, answer: Answer) -> None:
    assert answered(command, answer | DEVICE) == answer | DEVICE


def test_what_it_says_on_a_gpu_is_an_answer() -> None:
    called = {key: CALLED[key] for key in ("overlaps", "types", "devices")}
    called |= {"outputs": COPIED | {"stem": "out"}, "gone": []}
    assert answered(CALL, called, OnGpu()) == called
    assert answered({"do": "timed"}, TIMED, OnGpu()) == TIMED
    assert answered({"do": "ablate"}, {"left_out": 1, "outputs": COPIED}, OnGpu())["left_out"] == 1


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (CALL, CALLED),
        (CALL, CALLED | {"launches": 1}),
        (CALL, CALLED | DEVICE | {"more": 1}),
        (CALL, CALLED | DEVICE | {"launches": None}),
        (CALL, CALLED | DEVICE | {"launches": -1}),
        (CALL, CALLED | DEVICE | {"device_findings": [FINDING | {"count": "many"}]}),
        (CALL, CALLED | DEVICE | {"device_findings": [FINDING | {"count": 0}]}),
        (CALL, CALLED | DEVICE | {"device_findings": [FINDING | {"severity": "none"}]}),
        (CALL, CALLED | DEVICE | {"device_findings": [{"kind": "race"}]}),
        (CALL, CALLED | DEVICE | {"device_findings": "none"}),
        (CALL, CALLED | DEVICE | {"overlaps": []}),
        (CALL, CALLED | DEVICE | {"overlaps": None}),
        (CALL, CALLED | DEVICE | {"types": []}),
        (CALL, CALLED | DEVICE | {"written_bands": None}),
        (CALL, {key: CALLED[key] for key in CALLED if key != "written_bands"} | DEVICE),
        (CALL, CALLED | DEVICE | {"outputs": {"stem": "other", "tree": ["tensor", 0], "tensors": [SPEC]}}),
        (CALL, CALLED | DEVICE | {"outputs": {"stem": "out", "tree": deep(1200), "tensors": [SPEC]}}),
        (CALL, {"error": "no"} | DEVICE),
        (CALL, {"error": RAISED | {"line": "3"}} | DEVICE),
        ({"do": "beside", "what": "operators"}, {"unchecked": []} | DEVICE),
        ({"do": "beside", "what": "operators"}, {"refused": [["op"]], "unchecked": []} | DEVICE),
        ({"do": "instance"}, {"held": [], "error": 3} | DEVICE),
    ],
)  # fmt: skip
def test_anything_else_is_none_and_ends_the_process(command: Answer, answer: Answer) -> None:
    process = Process(answer)
    with pytest.raises(ChildFault, match="with something else"):
        ask(cast(Child, process), cast(Backend, OnCpu()), command, 1.0)
    assert process.killed


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ({"do": "ablate"}, {"outputs": COPIED}),
        ({"do": "ablate"}, {"outputs": COPIED, "left_out": -1}),
        ({"do": "timed"}, TIMED | {"ms": float("nan")}),
        ({"do": "timed"}, TIMED | {"ms": "0"}),
        ({"do": "timed"}, TIMED | {"is_late": 1}),
        ({"do": "profile"}, {"kernels": [{"name": "k", "us": 1.0}]}),
        ({"do": "profile"}, {}),
        ({"do": "row"}, {"there": 1}),
    ],
)
def test_nor_is_it_on_a_gpu(command: Answer, answer: Answer) -> None:
    with pytest.raises(ChildFault, match="with something else"):
        answered(command, answer, OnGpu())


@pytest.mark.parametrize(
    "request_",
    [
        {"request": 1}, {"request": "build"}, {"request": "build", "build": []},
        {"request": "progress", "build": {}}, {"request": "build", "build": {}, "more": 1},
        {"request": "build", "build": {"seconds": "many"}}, {"request": "build", "build": {"log": 3}},
        {"request": "build", "build": {"seconds": float("inf")}},
        {"request": "build", "build": {"begins": 1}},
    ],
)  # fmt: skip
def test_a_request_that_is_no_build_is_no_message(request_: Answer) -> None:
    backend, process = OnCpu(), Process(CALLED | DEVICE, request_)
    with pytest.raises(ChildFault, match="build"):
        ask(cast(Child, process), cast(Backend, backend), CALL, 1.0)
    assert backend.served == []


def test_a_command_that_no_worker_knows_is_ours() -> None:
    for command in ({"do": "dance"}, {"do": "beside", "what": "dance"}):
        with pytest.raises(KeyError):
            worker_answers.expected(command, "cpu")
