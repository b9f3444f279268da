"""Wrong recurrent layers for `mutants`: a GRU, an LSTM or an RNN with one fault at every step.

torch computes a recurrent layer step by step. Omitting an operator from one of many steps is not a realistic
fault, and its effect mostly fades by the end of the sequence. Realistic faults mix up or leave out gates,
weights, biases, states and layers.

A call is `func(x, states, weights, biases?, layers, dropout, training, bidirectional, batch_first)`. A layer
has, for each direction, the input's weights, the state's weights, the input's bias and the state's bias.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch

from agent.harness.worker.memory_guards import leaves

_GATES: Mapping[Any, tuple[int, tuple[tuple[int, int], ...]]] = {
    torch.gru: (3, ((0, 1),)),
    torch.lstm: (4, ((0, 1), (0, 3), (1, 3))),
    torch.rnn_tanh: (1, ()),
    torch.rnn_relu: (1, ()),
}
"""Number of gates, and pairs of gates with equal activations, which can be mistaken for each other."""
ENDS = ("swapped",)
"""Endings of fault names that only recurrent layers have."""


class _Call(NamedTuple):
    """Arguments of a recurrent layer, in order."""

    x: torch.Tensor
    states: Any
    weights: list[torch.Tensor]
    has_biases: bool
    layers: int
    dropout: float
    training: bool
    bidirectional: bool
    batch_first: bool

    @property
    def kinds(self) -> int:
        """Number of weights and biases of one layer in one direction."""
        return 4 if self.has_biases else 2

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1


def is_layer(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return True if the call is a recurrent layer that can be mutated.

    Its sequence has to be padded rather than packed, and the layer has no projections.
    """
    if func not in _GATES or kwargs or len(args) != len(_Call._fields) or not isinstance(args[-1], bool):
        return False
    given = _Call(*args)
    return len(given.weights) == given.kinds * given.layers * given.directions


def changes(func: Any, args: tuple[Any, ...]) -> list[str]:
    """Return the names of possible faults of a recurrent layer's call."""
    given = _Call(*args)
    found = ["recurrence dropped"]
    found += [f"gates {one} and {other} swapped" for one, other in _GATES[func][1]]
    if given.has_biases:
        found += ["input's bias ignored", "state's bias ignored"]
    if any(bool(state.any()) for state in leaves(given.states)):
        found.append("initial state ignored")
    if given.layers > 1:
        found.append("last layer dropped")
    if given.bidirectional:
        found += ["reverse weights ignored", "directions swapped"]
    return found


def changed(change: str, func: Any, args: tuple[Any, ...]) -> Any:
    """Return the layer's result with the fault `change`."""
    given = _Call(*args)
    if change.startswith("gates "):
        pair = next(pair for pair in _GATES[func][1] if change == f"gates {pair[0]} and {pair[1]} swapped")
        weights = [_swapped(weight, _GATES[func][0], *pair) for weight in given.weights]
        return func(*given._replace(weights=weights))
    return _CHANGES[change](func, given)


def _swapped(weight: torch.Tensor, gates: int, one: int, other: int) -> torch.Tensor:
    order = list(range(gates))
    order[one], order[other] = other, one
    blocks = weight.chunk(gates)
    return torch.cat([blocks[place] for place in order])


def _without(kind: int, func: Any, given: _Call) -> Any:
    """Run with zeros for one kind of weights or biases in all layers, given by its index in a layer."""
    weights = [
        torch.zeros_like(weight) if place % given.kinds == kind else weight
        for place, weight in enumerate(given.weights)
    ]
    return func(*given._replace(weights=weights))


def _from_zeros(func: Any, given: _Call) -> Any:
    zeros = [torch.zeros_like(state) for state in leaves(given.states)]
    return func(*given._replace(states=zeros if isinstance(given.states, (list, tuple)) else zeros[0]))


def _without_the_last_layer(func: Any, given: _Call) -> Any:
    """Run the recurrent layers without the last one, whose states stay unchanged."""
    rows = given.directions * (given.layers - 1)
    several = isinstance(given.states, (list, tuple))
    first = [state[:rows].contiguous() for state in leaves(given.states)]
    output, *states = func(
        *given._replace(
            states=first if several else first[0],
            weights=given.weights[: rows * given.kinds],
            layers=given.layers - 1,
        )
    )
    kept = [state[rows:] for state in leaves(given.states)]
    return output, *(torch.cat(pair) for pair in zip(states, kept, strict=True))


def _forward_weights_alone(func: Any, given: _Call) -> Any:
    """Run both directions with the weights of the forward direction."""
    kinds = given.kinds
    weights = [given.weights[p - kinds if p // kinds % 2 else p] for p in range(len(given.weights))]
    return func(*given._replace(weights=weights))


def _directions_swapped(func: Any, given: _Call) -> Any:
    """Run each direction with the weights of the other direction."""
    kinds = given.kinds
    weights = [given.weights[p - kinds if p // kinds % 2 else p + kinds] for p in range(len(given.weights))]
    return func(*given._replace(weights=weights))


_CHANGES: Mapping[str, Callable[[Any, _Call], Any]] = {
    "recurrence dropped": partial(_without, 1),
    "input's bias ignored": partial(_without, 2),
    "state's bias ignored": partial(_without, 3),
    "initial state ignored": _from_zeros,
    "last layer dropped": _without_the_last_layer,
    "reverse weights ignored": _forward_weights_alone,
    "directions swapped": _directions_swapped,
}
