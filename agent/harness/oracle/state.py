"""What the commands of the oracle share: the reference, the present draw and the output judged last."""

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
"""The part of the GPU's memory that is to be free for the candidate's call."""


class OracleState:
    """Of one oracle; its components read and write it."""

    def __init__(self, reference: Reference, folder: Path, device: str, exchange: Exchange) -> None:
        self.reference, self.folder, self.device, self.exchange = reference, folder, device, exchange
        self.arguments: list[Any] = []
        """The constructor's, of the present parameters."""
        self.draw: Draw | None = None
        """The present draw, where there is one."""
        self.names: parameter_names.Names = {}
        """ModelNew's name for each parameter that has another name than the reference's."""
        self.output: Any = None
        """The output judged last."""
        self.described: dict[str, Any] = {}
        """Its description, by the candidate's process."""

    @property
    def present(self) -> Draw:
        """The present draw, for commands that only come when there is one."""
        assert self.draw is not None
        return self.draw

    def parameters(self) -> dict[str, torch.Tensor]:
        """The present parameters and buffers, as the candidate is to hear of them."""
        return {self.names.get(name, name): tensor for name, tensor in self.reference.state().items()}

    def make_room(self, part: int = ROOM) -> None:
        """Gives memory back that the candidate's process may need, where less than that part is free. What is
        given back has to be taken anew, which takes longer than to compute in it.
        """
        if self.device == "cuda":
            free, whole = torch.cuda.mem_get_info()
            if free < whole // part:
                torch.cuda.empty_cache()

    def has_room(self) -> bool:
        """Whether half of the GPU's memory is free: enough to make up later for what a draw leaves out."""
        if self.device != "cuda":
            return False
        free, whole = torch.cuda.mem_get_info()
        kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return free + kept > whole // 2

    def foreign(self, types: list[str] | None, devices: list[str] | None) -> Finding | None:
        """An output that is no plain tensor, or not on the GPU."""
        return faults.foreign_output(types, devices if self.device == "cuda" else None)
