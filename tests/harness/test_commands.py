"""Each process answers the commands that it declares, read strictly; whatever else it gets is our fault."""

import importlib
import json
import os
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from agent.emulator.replay import player_commands
from agent.errors import EnvironmentFault
from agent.harness.backends.emulator import EmulatorBackend
from agent.harness.messages import commands, oracle_commands, worker_answers
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.oracle.server import Oracle, _failed, handlers_of
from agent.harness.oracle.timing_commands import TimingCommands
from agent.harness.oracle.transport import Files
from agent.harness.worker import worker_commands
from agent.sandbox import Child, ChildFault, messages
from agent.torch_shim import c_abi

WORKER = Path(worker_commands.__file__).parent
PLACES = {
    "worker": (WORKER, Path(messages.__file__).parent),
    "player": (
        Path(player_commands.__file__).parent,
        Path(c_abi.__file__).parent,
        Path(messages.__file__).parent,
    ),
}
DECLARED = {"oracle": oracle_commands, "worker": worker_commands, "player": player_commands}
REFERENCE = """import torch

Model = torch.nn.Identity


def get_inputs():
    return [torch.rand(3)]


def get_init_inputs():
    return []
"""
GOOD = {
    "oracle": {"do": "parameters", "seed": 1, "stem": "set0", "wide": False, "as_files": False},
    "worker": {"do": "instance", "init_inputs": {}, "state": {}, "dtype": None, "keeps_former": False},
    "player": {"do": "play", "steps": "s", "launches": True, "stem": "x", "outputs": []},
}
WRONG = [
    lambda good: good | {"do": "dance"},
    lambda good: good | {"do": "__class__"},
    lambda good: good | {"do": 1},
    lambda good: {key: value for key, value in good.items() if key != "do"},
    lambda good: good | {"more": 1},
    lambda good: {key: value for key, value in good.items() if key != list(good)[1]},
    lambda good: good | {list(good)[1]: [1.5]},
    lambda good: [good],
]


@pytest.fixture(params=["oracle", "worker", "player"])
def process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for place in PLACES.get(request.param, ()):
        monkeypatch.syspath_prepend(str(place))
    return str(request.param)


def made(process: str, folder: Path) -> Any:
    """The object that answers; of the candidate's processes one of which nothing has been set up."""
    if process == "oracle":
        (folder / "reference.py").write_text(REFERENCE)
        return Oracle(folder / "reference.py", folder, "cpu", Files(folder))
    kind = getattr(importlib.import_module(process), process.capitalize())
    return kind.__new__(kind)


def test_every_declared_command_has_a_handler_and_every_handler_a_declaration(
    process: str, tmp_path: Path
) -> None:
    declared = {messages.tag(kind) for kind in typing.get_args(DECLARED[process].Command)}
    answering = made(process, tmp_path)
    if process == "oracle":
        handlers = set(answering.handlers)
    else:
        handlers = {name.removeprefix("do_") for name in dir(answering) if name.startswith("do_")}
    assert declared == handlers


def test_a_handler_of_the_oracle_takes_the_command_of_its_name(tmp_path: Path) -> None:
    for tag, handler in made("oracle", tmp_path).handlers.items():
        assert messages.tag(typing.get_type_hints(handler)["command"]) == tag


def test_no_two_components_of_the_oracle_answer_the_same_command(tmp_path: Path) -> None:
    state = made("oracle", tmp_path).state
    with pytest.raises(ValueError, match="two components of the oracle answer `alone`"):
        handlers_of(TimingCommands(state), TimingCommands(state))


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_command_is_refused(process: str, wrong: Callable[[Any], Any], tmp_path: Path) -> None:
    line = json.dumps(wrong(GOOD[process])).encode()
    answering = made(process, tmp_path)
    if process == "worker":
        assert answering.answer(line).keys() == {worker_commands.REFUSED}
        return
    with pytest.raises(ValueError, match="expected|lacks|unknown") as raised:
        answering.answer(line)
    assert type(raised.value).__name__ == "Malformed"


def test_what_the_wrong_ones_are_made_of_is_a_command(process: str) -> None:
    messages.read(GOOD[process], DECLARED[process].Command)


def test_a_sender_cannot_write_a_command_of_other_types() -> None:
    with pytest.raises(messages.Malformed, match=r"\.seed"):
        commands.to_oracle(oracle_commands.Refresh("1"))  # type: ignore[arg-type]
    with pytest.raises(messages.Malformed, match=r"\.times"):
        commands.to_worker(worker_commands.Row(1.5))  # type: ignore[arg-type]


def test_a_command_that_the_oracle_refuses_is_our_fault(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE)
    argv = [
        sys.executable,
        "-m",
        "agent.harness.oracle.server",
        str(tmp_path / "reference.py"),
        str(tmp_path),
    ]
    with Child([*argv, "cpu", "-"], env=dict(os.environ)) as child:
        client = OracleClient(child, "a problem")
        for ask in (client.ask, client.weigh):
            with pytest.raises(EnvironmentFault, match="bug in kernelwright") as raised:
                ask({"do": "fits", "output": {}})
            assert "Malformed" in raised.value.details
        assert client.ask(commands.to_oracle(oracle_commands.Duration())).keys() == {
            "forward_s",
            "construct_s",
        }


class TooSmall:
    """In the place of an oracle's process, on a GPU with too little memory."""

    def ask(self, command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        return _failed(torch.OutOfMemoryError("out of memory"))


def test_too_little_memory_is_said_in_one_line_and_is_no_bug() -> None:
    client = OracleClient(cast(Child, TooSmall()), "a problem")
    for ask in (client.ask, client.weigh):
        with pytest.raises(EnvironmentFault, match="^a problem: there is too little memory") as raised:
            ask(commands.to_oracle(oracle_commands.Duration()))
        assert "bug" not in str(raised.value)


class Refusing:
    """A worker that knows no command."""

    def ask(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {worker_commands.REFUSED: ": load has too many keys", "launches": 0, "device_findings": []}

    def kill(self) -> None:
        pass

    def told(self, command: dict[str, Any]) -> dict[str, Any]:
        child, backend = typing.cast(Child, self), typing.cast(Any, EmulatorBackend)
        return worker_answers.ask(child, backend, command, 1.0)


def test_a_command_that_the_worker_has_to_refuse_is_our_fault_and_no_verdict() -> None:
    with pytest.raises(EnvironmentFault, match="load was refused: .* is a bug in kernelwright") as raised:
        Refusing().told({"do": "load", "more": 1})
    assert raised.value.details == ": load has too many keys"


def test_refusing_a_command_that_is_one_is_the_candidates_fault() -> None:
    with pytest.raises(ChildFault, match="a command that is one is refused"):
        Refusing().told({"do": "load", "name": "my_model", "ahead": False})


def test_the_oracle_of_these_tests_answers(tmp_path: Path) -> None:
    answering = made("oracle", tmp_path)
    assert answering.answer(json.dumps(GOOD["oracle"])).keys() == {"init_inputs", "state", "strength"}
