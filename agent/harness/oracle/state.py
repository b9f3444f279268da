"""State shared by the oracle's commands: the reference, the present draw and the output judged last."""

from pathlib import Path
from typing import Any

import torch

from agent.harness.oracle.transport import Exchange
from agent.harness.task import faults
from agent.harness.truth import parameter_names
from agent.harness.truth.draws import Draw
from agent.harness.truth.reference import Reference
from agent.records import Finding

ROOM = 3
"""Divisor of GPU memory that gives the part to keep free for the candidate's call."""


class OracleState:
    """State of one oracle, shared by the handlers of its commands."""

    def __init__(self, reference: Reference, folder: Path, device: str, exchange: Exchange) -> None:
        self.reference, self.folder, self.device, self.exchange = reference, folder, device, exchange
        self.arguments: list[Any] = []
        """Constructor arguments that go with the present parameters."""
        self.draw: Draw | None = None
        """Draw on which outputs are judged now, or None."""
        self.names: parameter_names.Names = {}
        """ModelNew's name of each parameter, by the reference's name, if the names differ."""
        self.output: Any = None
        """Output judged last."""
        self.described: dict[str, Any] = {}
        """Description of the output judged last, by the candidate's process."""

    @property
    def present(self) -> Draw:
        """Present draw, for commands that are sent only while there is one."""
        assert self.draw is not None
        return self.draw

    def parameters(self) -> dict[str, torch.Tensor]:
        """Return the present parameters and buffers under the names that the candidate uses."""
        return {self.names.get(name, name): tensor for name, tensor in self.reference.state().items()}

    def make_room(self, part: int = ROOM) -> None:
        """Release torch's cached memory for the candidate if less than 1/`part` of the GPU's memory is free.

        Memory is kept otherwise, since allocating it again takes longer than computing in it.
        """
        if self.device == "cuda":
            free, whole = torch.cuda.mem_get_info()
            if free < whole // part:
                torch.cuda.empty_cache()

    def has_room(self) -> bool:
        """Return True if half of the GPU's memory is free, enough to complete a `strict` draw later."""
        if self.device != "cuda":
            return False
        free, whole = torch.cuda.mem_get_info()
        kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return free + kept > whole // 2

    def foreign(self, types: list[str] | None, devices: list[str] | None) -> Finding | None:
        """Return a finding if an output is not a plain tensor, or not on the GPU."""
        return faults.foreign_output(types, devices if self.device == "cuda" else None)
