"""Commands that locate and explain the errors of the output judged last."""

import contextlib
from typing import Any

import torch

from agent.diagnosis.mismatch import error_map
from agent.harness.messages import oracle_commands, where_commands
from agent.harness.oracle import following
from agent.harness.oracle.explanation import Explaining
from agent.harness.oracle.state import OracleState
from agent.harness.truth import tolerance
from agent.harness.worker import wire
from agent.records import Finding


class DiagnosisCommands:
    """Handlers of the commands. The judge sends `Explain` first, then `Where`, then `Narrow`."""

    def __init__(self, state: OracleState) -> None:
        self._state = state
        self._explaining: Explaining | None = None

    def do_explain(self, command: oracle_commands.Explain) -> dict[str, Any]:
        """Explain why the output judged last is wrong."""
        found, draw = Finding.model_validate(command.finding), self._state.present
        self._explaining = Explaining(self._state.reference, command.source, found)
        if found.kind != "wrong-shape":
            return self._explaining.of_values(draw, self._state.output)
        pairs = zip(self._state.described["tensors"], tolerance.leaves(draw.expected.native), strict=True)
        shapes = ((tuple(spec["shape"]), tuple(want.shape)) for spec, want in pairs)
        given, wanted = next(pair for pair in shapes if pair[0] != pair[1])
        return self._explaining.of_shape(draw, given, wanted)

    def do_show(self, command: where_commands.Show) -> dict[str, Any]:
        """Write the present parameters and inputs to files, for a replay of the call judged last."""
        state, folder = self._state, self._state.folder
        wire.dump(state.arguments, folder, command.parameters + "-init")
        wire.dump(state.parameters(), folder, command.parameters + "-state")
        wire.dump(state.present.inputs, folder, command.inputs)
        return {}

    def do_where(self, command: where_commands.Where) -> dict[str, Any]:
        """Refine the explanation with the values that the kernels wrote in the call judged last."""
        assert self._explaining is not None
        followed = following.read(command, tolerance.leaves(self._state.output))
        return self._explaining.where(self._state.present, self._state.output, followed)

    def do_map(self, command: oracle_commands.Map) -> dict[str, Any]:
        """Return a map of the errors in the output judged last.

        The map is null if the output's structure is wrong, every element is right, or memory runs out.
        """
        if self._state.draw is None or self._state.output is None:
            return {"map": None}
        with contextlib.suppress(MemoryError, torch.OutOfMemoryError):
            found = self._state.draw.expected.wrong(self._state.output)
            return {"map": error_map.draw_map(found[1], found[0]).model_dump() if found else None}
        return {"map": None}

    def do_narrow(self, command: oracle_commands.Narrow) -> dict[str, Any]:
        """Refine the explanation with the candidate's outputs for the present draw."""
        assert self._explaining is not None
        if self._state.present.expected.structure(wire.checked(command.outputs)) is not None:
            return {}
        output = self._state.exchange.outputs(command.outputs, self._state.present.expected.native)
        return self._explaining.of_values(self._state.present, output)
