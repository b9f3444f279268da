"""The oracle's part in timing: contents of the timed calls, times of the reference, and the outputs taken."""

from pathlib import Path
from typing import Any

import torch

from agent.harness import faults
from agent.harness.baselines import Baselines, card
from agent.harness.beside import Beside
from agent.harness.exchange import Exchange
from agent.harness.reference import Reference
from agent.records import Finding

ROOM = 8
"""Share of the GPU's memory that the oracle may hold for later."""


class Timed(Beside):
    """Commands of the clock's; `do_baselines` comes first."""

    def __init__(self, reference: Reference, folder: Path, device: str, exchange: Exchange) -> None:
        super().__init__(reference, folder, device)
        self._exchange = exchange
        self._seed = 0
        self._baselines: Baselines | None = None

    def do_baselines(self, command: dict[str, Any]) -> dict[str, Any]:
        """Makes ready what the candidate is timed against, at the parameters of the last draw."""
        draw = self._reference.draw(self._seed)
        assert draw is not None
        self._baselines = Baselines(self._reference, self._exchange, draw.inputs, draw.expected.native)
        del draw
        torch.cuda.empty_cache()
        names = self._baselines.prepare(command["compiled"], command["launch_bound_ms"])
        return {"names": names, "problems": self._baselines.problems}

    def do_refresh(self, command: dict[str, Any]) -> dict[str, Any]:
        self._seed = command["seed"]
        self._timing.refresh(self._seed)
        return {}

    def do_timed(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"ms": self._timing.timed(command["what"])}

    def do_slope(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"ms": self._timing.slope(command["what"], command["few"], command["many"])}

    def do_take(self, command: dict[str, Any]) -> dict[str, Any]:
        self._timing.take()
        return {}

    def do_alone(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"ms": self._timing.alone(command["few"], command["many"])}

    def do_room_for_row(self, command: dict[str, Any]) -> dict[str, Any]:
        return self._timing.room_for_row(command["least"], command["most"])

    def do_fill_row(self, command: dict[str, Any]) -> dict[str, Any]:
        self._timing.fill_row(command["seeds"])
        return {}

    def do_take_of_row(self, command: dict[str, Any]) -> dict[str, Any]:
        self._timing.take_of_row(command["number"])
        return {}

    def do_recall(self, command: dict[str, Any]) -> dict[str, Any]:
        """The contents that outputs taken of a row were computed from, as the present inputs."""
        self._seed = command["seed"]
        self._timing.recall(self._seed)
        return {}

    def do_glance(self, command: dict[str, Any]) -> dict[str, Any]:
        """Whether the outputs that were taken have to be held against the truth."""
        # Such a reference would change the contents that the candidate was given, too.
        return {"doubtful": "input" not in self._reference.changes and self._timing.doubtful()}

    def do_card(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"card": card()}

    def do_judge_taken(self, command: dict[str, Any]) -> dict[str, Any]:
        """The outputs that were taken, against the truth about the contents they were computed from."""
        known = None if "input" in self._reference.changes else self._timing.inputs
        draw = self._reference.draw(self._seed, inputs=known)
        assert draw is not None
        claims = command["claims"]
        # Outputs of a row have their places, so that no description comes with them.
        described = command.get("outputs")
        finding = (draw.expected.structure(described) if described else None) or self._foreign(claims)
        if finding is not None:
            return {"finding": finding.model_dump(mode="json")}
        try:
            return draw.expected.compare(self._timing.taken)
        finally:
            del draw
            self._make_room()

    @property
    def _timing(self) -> Baselines:
        assert self._baselines is not None
        return self._baselines

    def _make_room(self) -> None:
        """Gives memory back that the candidate's process may need."""
        if self._device == "cuda" and torch.cuda.memory_reserved() > torch.cuda.mem_get_info()[1] // ROOM:
            torch.cuda.empty_cache()

    def _foreign(self, claims: dict[str, Any]) -> Finding | None:
        """An output that is no plain tensor, or not on the GPU."""
        devices = claims.get("devices") if self._device == "cuda" else None
        return faults.foreign_output(claims.get("types"), devices)
