"""One side of a model that `benchmarks.kernels.models` times: a process that is told what to do by a pipe."""

import contextlib
import copy
import sys
import time
from functools import partial
from typing import Any

import torch
from torch import nn

from agent.kernels import replace_modules
from agent.kernels.benching import disable_tf32
from agent.kernels.clock import in_a_row
from agent.kernels.replaced import Replaced
from benchmarks.kernels.architectures import ARCHITECTURES, Architecture

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
SIDES = ("before", "swapped", "fused")
WAYS = {"eager": SIDES, "compile": ("before", "fused")}
"""And the sides that are timed so."""
DIRECTIONS = ("forward", "step")
RUNS, ROUNDS, SECONDS = 3, 4, 0.6
"""A round is so many runs in a row; of a block so many rounds, or fewer where they take so long."""


def serve(pipe: Any, lock: Any, name: str, dtype: str, side: str) -> None:
    """Says what was fused and how far that is from the model, then does what it is told.

    The first word is that the kernels are built. A way (`eager`, `compile`) has it get ready for that, a
    direction has it answer a block's milliseconds. It holds the lock where others would disturb it or have no
    memory left beside it.
    """
    pipe.recv()
    disable_tf32()
    _choose_alone(lock)
    (architecture,) = (one for one in ARCHITECTURES if one.name == name)
    # What a pair gains is timed while the models are fused.
    with lock if side == "fused" else contextlib.nullcontext():
        model, inputs, facts = made(architecture, dtype, side)
        torch.cuda.empty_cache()
    pipe.send(facts)
    call: Any = model
    while True:
        told = pipe.recv()
        if told in DIRECTIONS:
            pipe.send(block(told, call, inputs))
            continue
        if told == "compile":
            call = torch.compile(model, dynamic=False)
            _run_all(call, inputs)
        else:
            with lock:
                _run_all(call, inputs)
        pipe.send(told)


def made(
    architecture: Architecture, dtype: str, side: str
) -> tuple[nn.Module, list[torch.Tensor], dict[str, Any]]:
    """The model as this side has it, its inputs, and what is known of the fused one."""
    torch.manual_seed(0)
    kind = DTYPES[dtype]
    with torch.device("cuda"):  # random weights of a decoder take long on a CPU
        model = architecture.model(True).to(kind)
        inputs = [x.to(kind) if x.is_floating_point() else x for x in architecture.inputs(True)]
    if side == "before":
        return model, inputs, {}
    if side == "swapped":
        replace_modules(model)
        return model, inputs, {}
    native = copy.deepcopy(model)
    report = replace_modules(model, tuple(inputs))
    sys.stderr.write(f"{architecture.name}, {dtype}:\n{report}\n")
    counts = {"fused": len(report.fused), "kept": len(report.kept), "patterns": by_pattern(report)}
    return model, inputs, {**counts, **distances(model, native, inputs)}


def by_pattern(report: Replaced) -> dict[str, dict[str, float]]:
    """How many of each, the largest error of the calls in their place, and of the operations before."""
    made: dict[str, dict[str, float]] = {}
    for fusion in report.fused.values():
        one = made.setdefault(fusion.pattern, {"pairs": 0, "error": 0.0, "error_before": 0.0})
        one["pairs"] += 1
        one["error"] = max(one["error"], fusion.error)
        one["error_before"] = max(one["error_before"], fusion.error_before)
    return made


def distances(ours: nn.Module, native: nn.Module, inputs: list[torch.Tensor]) -> dict[str, float]:
    """Largest differences of the value, and of all gradients, as shares of their rms."""
    made = []
    for model in (ours, native):
        value = model(*inputs)
        found = torch.autograd.grad(value.float().square().mean(), list(model.parameters()))
        made.append((value.detach().float(), torch.cat([one.float().flatten() for one in found])))
    return {
        name: float((one - two).abs().max() / two.square().mean().sqrt())
        for name, one, two in zip(("value", "gradient"), *made, strict=True)
    }


def block(what: str, call: Any, inputs: list[torch.Tensor]) -> list[float]:
    """Milliseconds of a run, of each round. The memory is given back: not all sides have room at once."""
    _run(what, call, inputs)  # the second time is the first that is replayed
    before = _retries()
    until = time.monotonic() + SECONDS
    spans: list[float] = []
    while len(spans) < ROUNDS and (not spans or time.monotonic() < until):
        spans.append(in_a_row(partial(_run, what, call, inputs), RUNS))
    if _retries() > before:
        sys.stderr.write(f"{what}: the GPU's memory was short, so that these times say little\n")
    torch.cuda.empty_cache()
    return spans


def _choose_alone(lock: Any) -> None:
    """Has Inductor time the ways to launch a kernel, to keep the best, while no other side does so."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    time_all: Any = CachingAutotuner.benchmark_all_configs

    def alone(self: Any, *given: Any, **named: Any) -> Any:
        with lock:
            return time_all(self, *given, **named)

    CachingAutotuner.benchmark_all_configs = alone  # type: ignore[method-assign]


def _run_all(call: Any, inputs: list[torch.Tensor]) -> None:
    for what in DIRECTIONS:
        _run(what, call, inputs)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def _run(what: str, call: Any, inputs: list[torch.Tensor]) -> None:
    if what == "forward":
        with torch.no_grad():
            call(*inputs)
        return
    call(*inputs).float().square().mean().backward()
    for parameter in call.parameters():
        parameter.grad = None


def _retries() -> int:
    """How often memory had to be given back to be taken anew."""
    return int(torch.cuda.memory_stats()["num_alloc_retries"])
