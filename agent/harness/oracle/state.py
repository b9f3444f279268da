"""What the commands of the oracle share: the reference, the present draw and the output judged last."""

from pathlib import Path
from typing import Any

import torch

from agent.harness.oracle.transport import Exchange
from agent.harness.task import faults
from agent.harness.truth import outline, parameter_names
from agent.harness.truth.input_distributions import MILDER
from agent.harness.truth.reference import Draw, Reference
from agent.records import Finding

ROOM, SETTLED = 3, 16
"""The part of the GPU's memory that is to be free for the candidate's first call, and for later ones."""


class OracleState:
    """Of one oracle; its components read and write it."""

    def __init__(self, reference: Reference, folder: Path, device: str, exchange: Exchange) -> None:
        self.reference, self.folder, self.device, self.exchange = reference, folder, device, exchange
        self._draw: Draw | None = None
        self.family: str | None = None
        """That of the present draw."""
        self.lazy = device == "cuda"
        """Whether a draw may begin as an `outline`: not on the emulator, where each is replayed as well."""
        self._outlined: int | None = None
        """The seed of the present draw where it is one."""
        self._settled = False
        self.names: parameter_names.Names = {}
        """ModelNew's name for each parameter that has another name than the reference's."""
        self.output: Any = None
        """The output judged last."""
        self.described: dict[str, Any] = {}
        """Its description, by the candidate's process."""

    @property
    def draw(self) -> Draw | None:
        """The present draw, where there is one."""
        return self._draw

    @draw.setter
    def draw(self, draw: Draw | None) -> None:
        self._draw, self._outlined = draw, None

    @property
    def present(self) -> Draw:
        """The present draw with the limits of every order, for commands that only come when there is one."""
        if self._outlined is not None:
            self.draw = outline.completed(self.reference, self.outlined, self._outlined, self.family)
        return self.outlined

    @property
    def outlined(self) -> Draw:
        """The same with strict limits, where no others were needed so far."""
        assert self.draw is not None
        return self.draw

    @property
    def is_strict(self) -> bool:
        return self._outlined is not None

    def begin(self, seed: int, family: str | None) -> Draw | None:
        """The draw of this seed and family, which is the present one until it is known to tell nothing."""
        self.draw, self.family = None, family
        if self.lazy and self.reference.writes is False and family not in MILDER:
            self.draw = outline.drawn(self.reference, seed, family)
            if self.draw is not None and not self.reference.changes and self.draw.expected.obstacle() is None:
                self._outlined = seed
                return self.draw
        self.draw = None
        self.draw = self.reference.draw(seed, family)
        return self.draw

    def parameters(self) -> dict[str, torch.Tensor]:
        """The present parameters and buffers, as the candidate is to hear of them."""
        return {self.names.get(name, name): tensor for name, tensor in self.reference.state().items()}

    def make_room(self) -> None:
        """Gives memory back that the candidate's process may need, where less than its part is free. What is
        given back has to be taken anew, which takes longer than to compute in it.
        """
        if self.device == "cuda":
            free, whole = torch.cuda.mem_get_info()
            if free < whole // (SETTLED if self._settled else ROOM):
                torch.cuda.empty_cache()

    def settle(self) -> None:
        """The candidate was called: what it needs it has had."""
        self._settled = True

    def give_back(self) -> None:
        """The candidate lacked memory."""
        self._settled = False
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def foreign(self, types: list[str] | None, devices: list[str] | None) -> Finding | None:
        """An output that is no plain tensor, or not on the GPU."""
        return faults.foreign_output(types, devices if self.device == "cuda" else None)
