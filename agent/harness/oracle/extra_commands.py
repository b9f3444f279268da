"""Commands beside the protocol: names of parameters, what was asked for besides, and the envelope.

Tensors pass as files of raw bytes here, on a GPU too.
"""

from typing import Any

from agent.harness.messages import oracle_commands
from agent.harness.oracle.state import OracleState
from agent.harness.truth import gradients, input_variants, parameter_names, tolerance
from agent.harness.truth.user_code import ReferenceRaised
from agent.harness.worker import wire


class ExtraCommands:
    """Handlers; most are about the present draw."""

    def __init__(self, state: OracleState) -> None:
        self._state = state
        self._gradients: gradients.Gradients | None = None
        self._variants: list[input_variants.Variant] = []

    def do_ways(self, command: oracle_commands.Ways) -> dict[str, Any]:
        """The ways to assign the reference's parameters to what ModelNew holds; `{"none": reason}`."""
        known = dict(self._state.reference.model.named_parameters(remove_duplicate=False))
        mine = [
            parameter_names.Held(name, tuple(tensor.shape), str(tensor.dtype), name in known)
            for name, tensor in self._state.reference.state().items()
        ]
        held = [parameter_names.Held(*one) for one in command.held]
        try:
            return {"ways": parameter_names.assignments(mine, held)}
        except parameter_names.NoFit as error:
            return {"none": str(error)}

    def do_name(self, command: oracle_commands.Name) -> dict[str, Any]:
        """From here on the candidate hears of the parameters by these names."""
        self._state.names = dict(command.names)
        return {}

    def do_compare_files(self, command: oracle_commands.CompareFiles) -> dict[str, Any]:
        """Structure and values alone, of outputs for the present draw."""
        expected = self._state.present.expected
        finding = expected.structure(wire.checked(command.outputs))
        if finding is not None:
            return {"finding": finding.model_dump(mode="json")}
        return expected.compare(wire.load(command.outputs, self._state.folder, self._state.device))

    def do_gradients(self, command: oracle_commands.Gradients) -> dict[str, Any]:
        """What to send backwards through the present draw, and what is asked for; `{"none": reason}`."""
        try:
            self._gradients = gradients.expected(self._state.reference, self._state.present, command.seed)
        except gradients.NotDifferentiable as error:
            return {"none": str(error)}
        return {
            "upstream": wire.dump(self._gradients.upstream, self._state.folder, command.stem),
            "wanted": [self._state.names.get(name, name) for name in self._gradients.names],
        }

    def do_judge_gradients(self, command: oracle_commands.JudgeGradients) -> dict[str, Any]:
        """Gradients that came back, in the order they were asked for."""
        assert self._gradients is not None
        description = wire.checked(command.gradients)
        given = wire.load(description, self._state.folder, self._state.device)
        if not isinstance(given, list) or len(given) != len(self._gradients.names):
            raise wire.WireError("not the gradients that were asked for")
        return gradients.compare(self._gradients, given)

    def do_variants(self, command: oracle_commands.Variants) -> dict[str, Any]:
        """What the reference takes beyond the stated inputs, by number."""
        self._variants = input_variants.of(self._state.reference, command.seed, command.kinds)
        return {"variants": [{"kind": variant.kind, "what": variant.what} for variant in self._variants]}

    def do_variant(self, command: oracle_commands.Variant) -> dict[str, Any]:
        """The inputs of one variant, and parameters where it needs others; the truth stays here."""
        variant = self._variants[command.number]
        self._state.draw = None
        try:
            draw = input_variants.draw(self._state.reference, variant)
        except ReferenceRaised as error:
            # It has no float64 or no half of its own.
            return {"left_out": f"the reference raises {type(error.__cause__).__name__}"}
        if tolerance.non_finite(draw.expected.native):
            return {"left_out": "the reference is not finite"}
        self._state.draw = draw
        inputs = wire.dump(draw.inputs, self._state.folder, command.stem)
        answer = {"inputs": inputs, "layout": variant.layout}
        if variant.dtype is None:
            return answer
        state = wire.dump(self._state.parameters(), self._state.folder, command.stem + "-state")
        return answer | {"state": state, "dtype": str(variant.dtype).removeprefix("torch.")}
