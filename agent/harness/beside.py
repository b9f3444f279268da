"""What the reference's process answers beside the protocol: for requests and for the envelope.

Tensors pass as files of raw bytes here, on a GPU too.
"""

from pathlib import Path
from typing import Any

from agent.harness import budget, gradients, variants, wire
from agent.harness.reference import Draw, Reference


class Beside:
    """Commands about the present draw, which is the oracle's."""

    def __init__(self, reference: Reference, folder: Path, device: str) -> None:
        self._reference, self._folder, self._device = reference, folder, device
        self._draw: Draw | None = None
        self._gradients: gradients.Gradients | None = None
        self._variants: list[variants.Variant] = []

    def do_compare_files(self, command: dict[str, Any]) -> dict[str, Any]:
        """Structure and values alone, of outputs for the present draw."""
        assert self._draw is not None
        finding = self._draw.expected.structure(command["outputs"])
        if finding is not None:
            return {"finding": finding.model_dump(mode="json")}
        return self._draw.expected.compare(wire.load(command["outputs"], self._folder, self._device))

    def do_gradients(self, command: dict[str, Any]) -> dict[str, Any]:
        """What to send backwards through the present draw, and what is asked for; `{"none": reason}`."""
        assert self._draw is not None
        try:
            self._gradients = gradients.expected(self._reference, self._draw, command["seed"])
        except gradients.NotDifferentiable as error:
            return {"none": str(error)}
        return {
            "upstream": wire.dump(self._gradients.upstream, self._folder, command["stem"]),
            "wanted": self._gradients.names,
        }

    def do_judge_gradients(self, command: dict[str, Any]) -> dict[str, Any]:
        """Gradients that came back, in the order they were asked for."""
        assert self._gradients is not None
        description = command["gradients"]
        given = wire.load(description, self._folder, self._device)
        if not isinstance(given, list) or len(given) != len(self._gradients.names):
            raise ValueError("not the gradients that were asked for")
        return gradients.compare(self._gradients, given)

    def do_variants(self, command: dict[str, Any]) -> dict[str, Any]:
        """What the reference takes beyond the stated inputs, by number."""
        self._variants = variants.of(self._reference, command["seed"], command["kinds"])
        return {"variants": [{"kind": variant.kind, "what": variant.what} for variant in self._variants]}

    def do_variant(self, command: dict[str, Any]) -> dict[str, Any]:
        """The inputs of one variant, and parameters where it needs others; the truth stays here."""
        variant = self._variants[command["number"]]
        self._draw = None
        try:
            draw = variants.draw(self._reference, variant)
        except Exception as error:  # noqa: BLE001 - the reference has no float64 or no half of its own
            return {"left_out": f"the reference raises {type(error).__name__}"}
        if budget.non_finite(draw.expected.native):
            return {"left_out": "the reference is not finite"}
        self._draw = draw
        answer = {"inputs": wire.dump(draw.inputs, self._folder, command["stem"]), "layout": variant.layout}
        if variant.dtype is None:
            return answer
        state = wire.dump(self._reference.state(), self._folder, command["stem"] + "-state")
        return answer | {"state": state, "dtype": str(variant.dtype).removeprefix("torch.")}
