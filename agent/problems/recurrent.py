"""Record recurrent layers as one operation: `torch.gru`, `torch.lstm`, `torch.rnn_tanh`, `torch.rnn_relu`.

`RecurrentLayers` is a function mode, entered around a `Recorder`. torch splits such a call into some fifteen
operators per step and layer, so a trace would grow with the sequence and differ for every length. On fake
tensors only one step runs, which checks the shapes; the other steps have the same shapes. Packed sequences
are left unchanged. Imports torch: for the tracing child only.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from agent.problems.recording import Recorder

_LAYERS: Mapping[Any, Any] = {
    getattr(torch, name): getattr(torch.ops.aten, name).input
    for name in ("gru", "lstm", "rnn_tanh", "rnn_relu")
}
_BATCH_FIRST = 8
"""Position of the `batch_first` argument in each of these calls."""


class RecurrentLayers(TorchFunctionMode):
    """Function mode that records recurrent layers while active, without the operators inside them."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        overload = _LAYERS.get(func)
        if overload is None or kwargs or not _is_padded(args):
            return func(*args, **kwargs)
        with self._recorder.paused():
            run = _one_step if isinstance(args[0], FakeTensor) else _whole
            result = run(func, args)
        self._recorder.record(overload, args, kwargs, result)
        return result


def _is_padded(args: tuple[Any, ...]) -> bool:
    """Return True for a call on padded sequences with all its arguments given by position."""
    return len(args) == _BATCH_FIRST + 1 and isinstance(args[_BATCH_FIRST], bool) and args[0].dim() == 3


def _whole(func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return func(*args)


def _one_step(func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return the result for all steps, with shapes derived from a single step."""
    x, batch_first = args[0], args[_BATCH_FIRST]
    axis = 1 if batch_first else 0
    output, *states = func(x.narrow(axis, 0, 1), *args[1:])
    samples, features = output.shape[1 - axis], output.shape[2]
    whole = output.new_empty((x.shape[axis], samples, features))
    return whole.transpose(0, 1) if batch_first else whole, *states
