"""Calls by the candidate's process for optional checks and robustness probes.

Standalone: the worker runs a copy of this file. All results are claims of a process that the candidate
shares: outputs and gradients as bytes, and refusals by torch's own checks.
"""

import copy
import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import layouts  # type: ignore[import-not-found]

# In the worker's folder, copies of these modules lie beside this file.
import memory_guards  # type: ignore[import-not-found]
import torch
import wire  # type: ignore[import-not-found]
import worker_commands  # type: ignore[import-not-found]
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map, tree_map_only

TORCH_NAMESPACES = frozenset({"aten", "prims", "prim", "profiler", "inductor", "debugprims", "rngprims"})


def answer(model: Any, command: Any, folder: Path, device: str, shim: Any) -> dict[str, Any]:
    """Return the answer to the command `Beside`, with tensors in files of `folder`.

    `shim` is the module `torch_shim`, or None on a GPU. The command's `what` is `try` (forward alone),
    `gradients`, `traced` (under torch.compile) or `operators` (opcheck).
    """
    if shim is not None:
        shim.end_record()
        shim.check(command.checked)
    inputs = layouts.laid_out(wire.load(command.inputs, folder, "cuda"), command.layout)
    found: list[torch.Tensor | None] | None = None
    if command.what == "operators":
        return dict(check_operators(model, inputs, device))
    if command.what == "traced":
        try:
            with shim.tracing() if shim is not None else nullcontext():
                outputs = traced(model, inputs, nullcontext if shim is None else shim.entered)
        except Exception as error:  # noqa: BLE001 - the tracer raises what it likes
            return {"untraceable": str(error)[:60_000]}
    elif command.what == "gradients":
        upstream = wire.load(command.upstream, folder, "cuda")
        outputs, found = gradients(model, inputs, upstream, command.wanted)
    elif command.what == "try":
        with torch.no_grad():
            outputs = model(*inputs)
    else:
        raise ValueError(f"no call is made as {command.what}")
    _settle(outputs, shim)
    written = {"outputs": wire.dump(outputs, folder, command.stem)}
    if command.what == "gradients":
        stem = command.stem + "-gradients"
        written["gradients"] = None if found is None else wire.dump(found, folder, stem)
    return written


def without_kernels(call: Callable[[], Any], command: Any) -> tuple[Any, int]:
    """Return the outputs of a call on a GPU in which the candidate's launches are left out, and their number.

    Output memory that is not written holds ones in every bit.
    """
    suppress = ctypes.CDLL(None).kw_suppress
    memory_guards.poison(command.output_bytes, worker_commands.ONES)
    before = suppress(1)
    try:
        with torch.no_grad():
            outputs = call()
        torch.cuda.synchronize()
    finally:
        left_out = suppress(0) - before
    return outputs, left_out


def _settle(outputs: Any, shim: Any) -> None:
    if shim is None:
        torch.cuda.synchronize()
        return
    shim.synchronize()
    shim.check_outputs(outputs)


def gradients(
    model: Any, inputs: Any, upstream: list[torch.Tensor | None], wanted: list[str]
) -> tuple[Any, list[torch.Tensor | None] | None]:
    """Return the outputs and the wanted gradients, or None for the gradients if no output has a grad_fn.

    A parameter that the candidate lacks or does not use has no gradient.
    """
    given = tree_map_only(torch.Tensor, _leaf, inputs)
    leaves = {f"input {number}": tensor for number, tensor in enumerate(memory_guards.leaves(given))}
    known = leaves | dict(model.named_parameters())
    with torch.enable_grad():
        outputs = model(*given)
        pairs = [
            (out, gradient)
            for out, gradient in zip(memory_guards.leaves(outputs), upstream, strict=False)
            if gradient is not None and out.requires_grad
        ]
        if not pairs:
            return outputs, None
        asked = {name: known[name] for name in wanted if name in known and known[name].requires_grad}
        found = torch.autograd.grad(
            [out for out, _ in pairs],
            list(asked.values()),
            [gradient for _, gradient in pairs],
            allow_unused=True,
        )
    by_name = dict(zip(asked, found, strict=True))
    return outputs, [by_name.get(name) for name in wanted]


def traced(model: Any, inputs: Any, run: Callable[[], AbstractContextManager[Any]]) -> Any:
    """Return the outputs under torch.compile without a graph break. Raises torch's error for a break.

    The traced graph is not compiled but run as it is, in the context `run`.
    """

    def backend(graph: Any, example: Any) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            with run():
                return graph(*args)

        return call

    torch._dynamo.reset()
    with torch.no_grad():
        compiled: Any = torch.compile(model, fullgraph=True, backend=backend)
        return compiled(*inputs)


def check_operators(model: Any, inputs: Any, device: str) -> dict[str, list[tuple[str, str]]]:
    """Return the candidate's operators that torch.library.opcheck `refused`, each with the reason.

    Operators with tensors on another device than `device`, as on the emulator, are `unchecked`.
    """
    seen = _Seen()
    with torch.no_grad(), seen:
        model(*inputs)
    refused, unchecked = [], []
    for operator, args, kwargs in seen.calls.values():
        with torch._C.DisableTorchFunction():
            elsewhere = any(tensor.device.type != device for tensor in memory_guards.leaves((args, kwargs)))
        if elsewhere:
            unchecked.append((str(operator), "its tensors are not real ones here"))
            continue
        try:
            torch.library.opcheck(operator, args, kwargs)
        except Exception as error:  # noqa: BLE001 - whatever torch and the candidate's code raise is a refusal
            refused.append((str(operator), f"{type(error).__name__}: {error}"))
    return {"refused": refused, "unchecked": unchecked}


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that keeps the first call of each operator that is not torch's own.

    `calls` holds the operators with copies of the calls' arguments.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[str, tuple[Any, Any, Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace not in TORCH_NAMESPACES and str(func) not in self.calls:
            self.calls[str(func)] = (func, *tree_map(_copied, (args, kwargs or {})))
        return func(*args, **kwargs or {})


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    alone = tensor.detach().clone()
    return alone.requires_grad_() if alone.is_floating_point() else alone


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else copy.copy(value)
