"""Commands beside the protocol: parameter names, additional requests, and the envelope.

Their tensors pass as files of raw bytes, on a GPU too.
"""

from typing import Any

from agent.harness.messages import oracle_commands
from agent.harness.oracle.state import OracleState
from agent.harness.truth import gradients, input_variants, parameter_names, tolerance
from agent.harness.truth.user_code import ReferenceRaised
from agent.harness.worker import wire


class ExtraCommands:
    """Handlers, most of which concern the present draw."""

    def __init__(self, state: OracleState) -> None:
        self._state = state
        self._gradients: gradients.Gradients | None = None
        self._variants: list[input_variants.Variant] = []

    def do_ways(self, command: oracle_commands.Ways) -> dict[str, Any]:
        """Return the ways to assign the reference's parameters to ModelNew's, or `{"none": reason}`."""
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
        """Use these names from now on when parameters are passed to the candidate."""
        self._state.names = dict(command.names)
        return {}

    def do_compare_files(self, command: oracle_commands.CompareFiles) -> dict[str, Any]:
        """Compare structure and values only, for outputs of the present draw."""
        expected = self._state.present.expected
        finding = expected.structure(wire.checked(command.outputs))
        if finding is not None:
            return {"finding": finding.model_dump(mode="json")}
        return expected.compare(wire.load(command.outputs, self._state.folder, self._state.device))

    def do_gradients(self, command: oracle_commands.Gradients) -> dict[str, Any]:
        """Return the draw's upstream gradient and the gradients wanted, or `{"none": reason}`."""
        try:
            self._gradients = gradients.expected(self._state.reference, self._state.present, command.seed)
        except gradients.NotDifferentiable as error:
            return {"none": str(error)}
        return {
            "upstream": wire.dump(self._gradients.upstream, self._state.folder, command.stem),
            "wanted": [self._state.names.get(name, name) for name in self._gradients.names],
        }

    def do_judge_gradients(self, command: oracle_commands.JudgeGradients) -> dict[str, Any]:
        """Judge the gradients that came back, in the order in which they were requested."""
        assert self._gradients is not None
        description = wire.checked(command.gradients)
        given = wire.load(description, self._state.folder, self._state.device)
        if not isinstance(given, list) or len(given) != len(self._gradients.names):
            raise wire.WireError("not the gradients that were asked for")
        return gradients.compare(self._gradients, given)

    def do_variants(self, command: oracle_commands.Variants) -> dict[str, Any]:
        """Return the inputs that the reference accepts beyond the stated ones, by number."""
        self._variants = input_variants.find_variants(self._state.reference, command.seed, command.kinds)
        return {"variants": [{"kind": variant.kind, "what": variant.what} for variant in self._variants]}

    def do_variant(self, command: oracle_commands.Variant) -> dict[str, Any]:
        """Return the inputs of one variant, and parameters where it needs others.

        The ground truth stays here.
        """
        variant = self._variants[command.number]
        self._state.draw = None
        try:
            draw = input_variants.draw(self._state.reference, variant)
        except ReferenceRaised as error:
            # The reference does not run in float64 or in half precision on its own.
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
