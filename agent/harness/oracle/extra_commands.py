"""Commands that are not part of the protocol: parameter names, additional requests, and the envelope.

Tensors of these commands pass as files of raw bytes, on a GPU too.
"""

from typing import Any

from agent.harness.messages import oracle_commands
from agent.harness.oracle.state import OracleState
from agent.harness.truth import gradients, input_variants, parameter_names, tolerance
from agent.harness.truth.user_code import ReferenceRaised
from agent.harness.worker import wire


class ExtraCommands:
    """Handlers of the commands."""

    def __init__(self, state: OracleState) -> None:
        self._state = state
        self._gradients: gradients.Gradients | None = None
        self._variants: list[input_variants.Variant] = []

    def do_ways(self, command: oracle_commands.Ways) -> dict[str, Any]:
        """Return possible assignments of the reference's parameters to ModelNew's, or `{"none": reason}`."""
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
        """Pass parameters to the candidate under the command's names from now on."""
        self._state.names = dict(command.names)
        return {}

    def do_compare_files(self, command: oracle_commands.CompareFiles) -> dict[str, Any]:
        """Compare only structure and values of outputs for the present draw."""
        expected = self._state.present.expected
        finding = expected.structure(wire.checked(command.outputs))
        if finding is not None:
            return {"finding": finding.model_dump(mode="json")}
        return expected.compare(wire.load(command.outputs, self._state.folder, self._state.device))

    def do_gradients(self, command: oracle_commands.Gradients) -> dict[str, Any]:
        """Return an upstream gradient and the names of the wanted gradients, or `{"none": reason}`."""
        try:
            self._gradients = gradients.expected(self._state.reference, self._state.present, command.seed)
        except gradients.NotDifferentiable as error:
            return {"none": str(error)}
        return {
            "upstream": wire.dump(self._gradients.upstream, self._state.folder, command.stem),
            "wanted": [self._state.names.get(name, name) for name in self._gradients.names],
        }

    def do_judge_gradients(self, command: oracle_commands.JudgeGradients) -> dict[str, Any]:
        """Compare the candidate's gradients with the reference's, in the order of `wanted`."""
        assert self._gradients is not None
        description = wire.checked(command.gradients)
        given = wire.load(description, self._state.folder, self._state.device)
        if not isinstance(given, list) or len(given) != len(self._gradients.names):
            raise wire.WireError("not the gradients that were asked for")
        return gradients.compare(self._gradients, given)

    def do_variants(self, command: oracle_commands.Variants) -> dict[str, Any]:
        """Return kind and description of each input variant that the reference accepts."""
        self._variants = input_variants.find_variants(self._state.reference, command.seed, command.kinds)
        return {"variants": [{"kind": variant.kind, "what": variant.what} for variant in self._variants]}

    def do_variant(self, command: oracle_commands.Variant) -> dict[str, Any]:
        """Return the inputs of one variant, with parameters of another dtype if it needs them.

        The ground truth stays in this process.
        """
        variant = self._variants[command.number]
        self._state.draw = None
        try:
            draw = input_variants.draw(self._state.reference, variant)
        except ReferenceRaised as error:
            # Some references run neither in float64 nor in half precision.
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
