"""What is to be explained, and what an explanation is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import Rewrite
from agent.diagnosis.tape import Tape, record

Tensor = torch.Tensor
MOST_BYTES = 1 << 30
"""Largest size of all results of a reference that is explained; a wrong reference may take as much again."""


class Case(NamedTuple):
    """A wrong output and all that is known of how the right one comes about."""

    model: Callable[..., Any]
    """The reference in float64."""
    arguments: Sequence[Any]
    """What it is called with, the same tensors each time."""
    inputs: list[Tensor]
    """The tensors among the arguments, in float64."""
    parameters: dict[str, Tensor]
    """Parameters and buffers that `run` uses, by name."""
    defaults: dict[str, Tensor]
    """Their values as constructed; those that are drawn at random are left out."""
    outputs: list[Tensor]
    """The candidate's."""
    truth: list[Tensor]
    limits: list[Callable[[Tensor, float], Tensor] | None]
    """For each output the error allowed around flat values; None: equal."""
    source: str
    """The candidate's."""
    spreads: Sequence[float] = ()
    """For each output the largest rms error of the reference in float32, over several orders of summation."""

    called: str = ""
    """What is wrong, at the beginning of a sentence, where it is no output; empty for outputs."""
    part: Tape | None = None
    """What leads to the outputs, where that is a part of the reference."""

    def tape(self) -> Tape:
        """Record the operators that lead to the outputs. Raises what the reference raises, and TooLarge."""
        return self.part or record(self.run, self.names(), MOST_BYTES)

    def run(self) -> Any:
        """The reference once more."""
        return self.model(*self.arguments)

    def names(self) -> dict[int, str]:
        """Inputs and parameters by `id`."""
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
    """The calls of the reference that are changed; None where it can be no one of two faults."""
    replaced: Mapping[int, Tensor] = {}
    """Inputs and parameters in whose place others stand, by `id`."""
    then: Callable[[list[Tensor]], list[Tensor]] | None = None
    """What is done to the outputs."""
    lines: tuple[str, ...] = ()
    """Of the reference, which do what is changed."""
