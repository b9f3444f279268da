"""Commands for verification: draw parameters and inputs, and compare outputs with the ground truth."""

from typing import Any

import torch

from agent.harness.messages import oracle_commands
from agent.harness.oracle.state import OracleState
from agent.harness.oracle.transport import Excepted
from agent.harness.task import faults, protocol
from agent.harness.truth import tolerance
from agent.harness.truth.draws import Draw
from agent.harness.truth.output_structure import is_expanded
from agent.harness.truth.user_code import ReferenceRaised
from agent.harness.worker import wire
from agent.records import Finding

_NOTHING = {"max_abs_err": 0.0, "max_rel_err": 0.0, "ratio": 0.0}
"""Error measures of an output that could not be compared with a ground truth."""


def _nothing_to_change(family: str | None) -> str:
    """Return the reason why a family has no draw, empty if its absence is no gap in the verdict."""
    return "" if family in protocol.VARYING else "no floating-point input"


class VerificationCommands:
    """Handlers of commands that every trial sends."""

    def __init__(self, state: OracleState) -> None:
        self._state = state

    def do_parameters(self, command: oracle_commands.Parameters) -> dict[str, Any]:
        """Pass a new set of perturbed parameters to the candidate; return its description and `strength`."""
        self._state.output = None
        if command.wide:
            # Perturbing computes a whole draw, which may need the memory of the previous one.
            self._state.draw = None
        arguments = self._state.arguments = self._state.reference.perturb(command.seed, wide=command.wide)
        state, stem = self._state.parameters(), command.stem + "-state"
        as_files = command.as_files
        try:
            init_inputs = wire.dump(arguments, self._state.folder, command.stem + "-init")
        except (wire.WireError, RecursionError) as error:
            said = f"get_init_inputs: {error}; give plain values, tensors, or objects that hold those"
            raise ReferenceRaised(said) from None
        return {
            "init_inputs": init_inputs,
            "state": wire.dump(state, self._state.folder, stem)
            if as_files
            else self._state.exchange.give_state(state, stem),
            "strength": self._state.reference.strength,
        }

    def do_draw(self, command: oracle_commands.Draw) -> dict[str, Any]:
        """Draw fresh inputs for the candidate, and keep their ground truth in this process.

        With a `family`, the inputs are derived from the stated draw of the seed. The answer is
        `{"left_out": reason}` if they are no valid draw of the family. With `as_files`, they pass as files on
        a GPU, too.
        """
        self._state.draw, family = None, command.family
        try:
            draw = self._state.reference.draw(command.seed, family, strict=self._state.has_room())
            reason = draw.expected.obstacle() if draw else _nothing_to_change(family)
        except ReferenceRaised as error:
            if family is None:
                raise
            draw, reason = None, f"the reference raises {type(error.__cause__).__name__}"
        fixed = {"fixed": self._state.reference.varying.fixed} if family in protocol.VARYING else {}
        if draw is None or (family is not None and reason is not None):
            return {"left_out": reason} | fixed
        self._state.draw = draw
        if self._state.device == "cuda":
            draw.expected.lean()
        self._state.make_room()
        if command.as_files:
            return {"inputs": wire.dump(draw.inputs, self._state.folder, command.stem)}
        return self._given(command.stem, in_place=command.in_place) | fixed

    def do_again(self, command: oracle_commands.Again) -> dict[str, Any]:
        """Pass the inputs of the present draw again, at another address."""
        return self._given(command.stem, in_place=False)

    def _given(self, stem: str, *, in_place: bool) -> dict[str, Any]:
        draw = self._state.present
        native, state = draw.expected.native, self._state.parameters()
        given = self._state.exchange.give(draw.inputs, native, state, stem=stem, in_place=in_place)
        return given | {
            "may_overlap": any(map(is_expanded, tolerance.leaves(native))),
            "may_alias": any(draw.overlaps),
            "stateful": bool(self._state.reference.changes - {"input"}),
            "state": list(state),
            "state_bytes": [tensor.numel() * tensor.element_size() for tensor in state.values()],
            "output_bytes": [t.numel() * t.element_size() for t in tolerance.leaves(native)],
        }

    def do_judge(self, command: oracle_commands.Judge) -> dict[str, Any]:
        """Check an output's structure, then forbidden changes of other tensors, then the output's values.

        `truth.tolerance` has the rule for values. The answer has a finding, if any, and the status for it.
        """
        draw, earlier, self._state.output = self._state.present, self._state.output, None
        expected = draw.expected
        self._state.described = wire.checked(command.outputs)
        claims = command.claims
        finding = expected.structure(command.outputs) or self._state.foreign(claims.types, claims.devices)
        if finding is not None:
            return {"status": "incorrect", "finding": finding.model_dump(mode="json")}
        finding = self._tampering(claims, earlier)
        if finding is not None:
            return {"status": "rejected", "finding": finding.model_dump(mode="json")}
        output = self._state.exchange.outputs(command.outputs, expected.native)
        result = expected.compare(output)
        is_other = command.repeat and ("finding" in result or expected.differs(output, earlier))
        if draw.in_full is not None and (is_other or "finding" in result):
            del draw, expected  # This frees a ground truth of several GB before the next one is computed.
            expected, reason = self._in_full()
            if reason is not None:
                return _NOTHING | {"status": "incorrect", "native_error": 0.0, "left_out": reason}
            result = expected.compare(output)
            is_other = command.repeat and ("finding" in result or expected.differs(output, earlier))
        if is_other:
            result["finding"] = faults.not_deterministic(result.get("finding")).model_dump(mode="json")
        self._state.output = output
        self._state.make_room()
        return result | {"status": "incorrect", "native_error": expected.native_error}

    def do_fits(self, command: oracle_commands.Fits) -> dict[str, Any]:
        """Return True under `fits` if outputs for the present draw have the right structure and values.

        The answer gives no reason.
        """
        draw = self._state.present
        if draw.expected.structure(wire.checked(command.outputs)) is not None:
            return {"fits": False}
        output = tolerance.leaves(self._state.exchange.outputs(command.outputs, draw.expected.native))
        return {"fits": self._accepts(draw, output)}

    def do_fits_other(self, command: oracle_commands.FitsOther) -> dict[str, Any]:
        """Return True under `fits` if the reference's output for other inputs is right for this draw."""
        reference, present = self._state.reference, self._state.present
        other = reference.draw(command.seed, command.family) or reference.draw(command.seed)
        assert other is not None
        return {"fits": self._accepts(present, tolerance.leaves(other.expected.native))}

    def _accepts(self, draw: Draw, output: list[torch.Tensor]) -> bool:
        if draw.expected.accepts(output):
            return True
        if draw.expected.is_far(output):
            return False  # No order of summation explains errors this large, and trying all orders is slow.
        return draw.in_full is not None and self._in_full()[0].accepts(output)

    def _in_full(self) -> tuple[tolerance.Expected, str | None]:
        """Replace the present draw by one whose tolerances allow for every order of summation.

        Returns its `Expected`, and the reason why a draw from a family is inconclusive, or None.
        """
        made, self._state.draw = self._state.present.in_full, None
        assert made is not None
        drawn = self._state.draw = made()
        drawn.expected.lean()
        return drawn.expected, drawn.expected.obstacle() if drawn.family is not None else None

    def _tampering(self, claims: oracle_commands.Claims, earlier: Any) -> Finding | None:
        """Return a finding if the candidate changed tensors or returned shared memory, or None.

        The evidence is the bytes of the tensors and the claims of the candidate's process.
        """
        reference, exchange, draw = self._state.reference, self._state.exchange, self._state.present
        excepted = Excepted(reference.changes, draw.overlaps)
        changed = exchange.changed(draw.inputs, earlier, reference.state(), claims, excepted)
        return (
            faults.changed(set(changed))
            or faults.guard_written(exchange.written_bands(claims))
            or faults.overlapping(claims.overlaps, draw.overlaps)
        )
