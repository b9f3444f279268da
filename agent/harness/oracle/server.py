"""Process of the reference, which draws inputs and parameters, holds the float64 truth and compares.

The process runs the user's own reference, which is trusted. It never imports candidate code, and reads a
candidate's output only as raw bytes of a size that it fixed itself. It is started as `python -m
agent.harness.oracle.server SOURCE FOLDER DEVICE SHARED DESCRIPTOR`, where SHARED lists the sockets for GPU
memory, or is -. Commands and answers are JSON lines as in the worker.

Both sides run in eval mode without gradients and with TF32 off, for matrix products and for cuDNN.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from agent import sandbox
from agent.harness.messages import oracle_commands
from agent.harness.oracle.diagnosis_commands import DiagnosisCommands
from agent.harness.oracle.extra_commands import ExtraCommands
from agent.harness.oracle.process_commands import ProcessCommands
from agent.harness.oracle.state import OracleState
from agent.harness.oracle.timing_commands import TimingCommands
from agent.harness.oracle.transport import Exchange, Files, SharedMemory
from agent.harness.oracle.verification_commands import VerificationCommands
from agent.harness.truth.reference import Reference
from agent.harness.truth.user_code import ReferenceRaised
from agent.harness.worker import wire
from agent.sandbox import messages

Answer = dict[str, Any]
COMPONENTS = (VerificationCommands, DiagnosisCommands, ExtraCommands, TimingCommands, ProcessCommands)
"""Classes of handlers, which share one state. A command with tag TAG has one handler `do_TAG`."""


class Oracle:
    """Oracle of one reference: dispatches each command to its handler."""

    def __init__(self, source: Path, folder: Path, device: str, exchange: Exchange) -> None:
        self.state = OracleState(Reference(source, device), folder, device, exchange)
        self.handlers = handlers_of(*(component(self.state) for component in COMPONENTS))

    def answer(self, line: bytes | str) -> Answer:
        """Return the answer to one command. Raises Malformed for a line that is not a command."""
        command: oracle_commands.Command = messages.decoded(line, oracle_commands.Command)
        return self.handle(command)

    def handle(self, command: oracle_commands.Command) -> Answer:
        """Return the answer to a parsed command."""
        return self.handlers[messages.tag(type(command))](command)


def handlers_of(*components: object) -> dict[str, Callable[[Any], Answer]]:
    """Return the handlers of all components, by the tag of their command.

    Raises ValueError if two components handle one command.
    """
    found: dict[str, Callable[[Any], Answer]] = {}
    for component in components:
        for name in (name for name in dir(component) if name.startswith("do_")):
            tag = name.removeprefix("do_")
            if tag in found:
                raise ValueError(f"two components of the oracle answer `{tag}`")
            found[tag] = getattr(component, name)
    return found


def _oracle(source: str, folder: str, device: str, shared: str) -> Oracle:
    exchange = (
        Files(Path(folder)) if shared == "-" else SharedMemory([int(number) for number in shared.split(",")])
    )
    return Oracle(Path(source), Path(folder), device, exchange)


_BLAME = {
    ReferenceRaised: "reference", wire.WireError: "description",
    torch.OutOfMemoryError: "memory", MemoryError: "memory",
}  # fmt: skip


def _failed(error: Exception) -> dict[str, Any]:
    """Return the error as an answer with its `blame`.

    The blame is the user's `reference`, the `description` of a candidate's tensors, the GPU's `memory` being
    too small, or this project's `own` code.
    """
    blame = _BLAME.get(type(error), "own")
    return {
        "error": str(error) if blame == "reference" else f"{type(error).__name__}: {error}",
        "blame": blame,
        "traceback": "".join(traceback.format_exception(error))[-8_000:],
    }


def main(argv: list[str]) -> None:
    sandbox.hide()
    commands = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if argv[3] == "cuda":
        # A ground truth takes several GB, which fragmented free memory has to serve in one piece.
        torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    oracle: Oracle | None = None
    for line in commands:
        try:
            oracle = oracle or _oracle(*argv[1:5])
            answer = oracle.answer(line)
        except Exception as error:  # noqa: BLE001 - the judge says whose fault it is
            answer = _failed(error)
        os.write(int(argv[-1]), json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv)
