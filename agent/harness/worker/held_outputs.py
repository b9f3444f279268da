"""Further calls on the current inputs, whose outputs are kept alive. Standalone: the worker runs a copy.

A ring buffer of outputs shows only when it wraps, so the calls go on to a limit of processor time or memory.
A candidate that keeps its returned tensors gets more calls, since their memory is never reused. Answers are
claims of a process that the candidate shares: they may refuse a candidate but never verify one.
"""

import bisect
import time
import weakref
from typing import Any

# In the worker's folder, copies of these modules lie beside this file.
import memory_guards  # type: ignore[import-not-found]
import torch


def run(model: Any, inputs: Any, kept: list[Any], command: Any, shim: Any) -> dict[str, Any]:
    """Return the answer to the command `Further`, and add the calls' outputs to `kept`.

    `shim` is the module `torch_shim`. A call of host code alone may fail because no kernel computed its
    values. The calls before it still count.
    """
    shim.end_record()
    groups = {"input": inputs, "parameter": memory_guards.held(model), "earlier output": kept}
    spans = {name: memory_guards.spans(value) for name, value in groups.items()}
    shared: set[str] = set()
    held: list[tuple[int, int]] = []
    calls, left, stopped, idle = 0, command.held_bytes, None, False
    if command.checked:
        shim.check(True)
    calling: Any = shim.without_blocks() if command.host_only else torch.no_grad()
    with calling as mode:
        retained = command.host_only and _keeps_outputs(model, inputs)
        end = time.process_time() + (command.longer_seconds if retained else command.seconds)
        most = command.longer_times if retained else command.times
        while calls < most and left > 0 and (calls == 0 or time.process_time() < end):
            launched = shim.launches()
            try:
                outputs = memory_guards.leaves(model(*inputs))
            except Exception as error:  # noqa: BLE001 - candidate code raises what it likes
                if not command.host_only:
                    raise
                stopped = f"{type(error).__name__}: {error}"[:300]
                break
            calls += 1
            idle |= shim.launches() == launched
            meeting = memory_guards.meeting(outputs, spans)
            for span, kinds in zip(memory_guards.spans(outputs), meeting, strict=True):
                elsewhere = [kind for kind in kinds if kind != "earlier output"]
                # An output that aliases an input also meets earlier ones there; only the input is reported.
                shared.update(elsewhere or kinds)
                if not elsewhere and not _added(span, held):
                    shared.add("earlier output")
            kept.append(outputs)
            left -= sum(tensor.numel() * tensor.element_size() for tensor in outputs)
    ran = sorted(mode.operators) if command.host_only else []
    return {"calls": calls, "shared": sorted(shared), "stopped": stopped, "idle": idle, "operators": ran}


def _added(span: tuple[int, int], held: list[tuple[int, int]]) -> bool:
    """Insert a span of addresses into the sorted list. Return False if it overlaps another span."""
    at = bisect.bisect(held, span)
    held.insert(at, span)
    begin, end = span
    return begin == end or (
        (at == 0 or held[at - 1][1] <= begin) and (at + 1 == len(held) or end <= held[at + 1][0])
    )


def _keeps_outputs(model: Any, inputs: Any) -> bool:
    """Return True if an output's memory stays alive after the caller has dropped the output."""
    try:
        outputs = [weakref.ref(t.untyped_storage()) for t in memory_guards.leaves(model(*inputs))]
    except Exception:  # noqa: BLE001 - the calls that follow tell of it
        return False
    return any(output() is not None for output in outputs)
