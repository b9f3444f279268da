"""Records of a wrong output to be explained, and of a hypothesis that may explain it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Rewrite
from agent.diagnosis.tape import Tape, record

Tensor = torch.Tensor
MOST_BYTES = 1 << 30
"""Maximum bytes of all operator results of the reference. A wrong reference may take as many again."""


class Case(NamedTuple):
    """A wrong output and everything known about how the right one is computed."""

    model: Callable[..., Any]
    """Reference model, converted to float64."""
    arguments: Sequence[Any]
    """Arguments of the reference, the same tensors on each call."""
    inputs: list[Tensor]
    """Tensors among the arguments, in float64."""
    parameters: dict[str, Tensor]
    """Parameters and buffers that `run` uses, by name."""
    defaults: dict[str, Tensor]
    """Values of the parameters as constructed, without parameters drawn at random."""
    outputs: list[Tensor]
    """Outputs of the candidate."""
    truth: list[Tensor]
    limits: list[Callable[[Tensor, float], Tensor] | None]
    """Function for each output that gives the error allowed around flat values; None requires equality."""
    source: str
    """Source of the candidate."""
    spreads: Sequence[float] = ()
    """Largest rms error of the float32 reference for each output, over several orders of summation."""

    called: str = ""
    """Name of the wrong value, to begin a sentence; empty if it is an output."""
    part: Tape | None = None
    """Calls that compute the outputs, if only a part of the reference's calls is considered."""

    def tape(self) -> Tape:
        """Record the operators that lead to the outputs. Raises what the reference raises, and TooLarge."""
        return self.part or record(self.run, self.names(), MOST_BYTES)

    def run(self) -> Any:
        """Return the results of the reference for the case's arguments."""
        return self.model(*self.arguments)

    def names(self) -> dict[int, str]:
        """Return the names of inputs and parameters by `id`."""
        named = {id(tensor): f"input {place}" for place, tensor in enumerate(self.inputs)}
        return named | {id(tensor): name for name, tensor in self.parameters.items()}


class Hypothesis(NamedTuple):
    """A wrong reference; `words` completes "the output equals the reference ..."."""

    kind: str
    words: str
    outputs: Callable[[], list[Tensor]]
    rank: int = 0
    tokens: str = ""
    rewrites: Mapping[int, Rewrite] | None = None
    """Changed calls of the reference by number; None if the hypothesis cannot be one of two faults."""
    replaced: Mapping[int, Tensor] = {}
    """Replacements of inputs and parameters, by `id`."""
    then: Callable[[list[Tensor]], list[Tensor]] | None = None
    """Function applied to all outputs of the reference."""
    lines: tuple[str, ...] = ()
    """Lines of the reference that the fault changes."""
