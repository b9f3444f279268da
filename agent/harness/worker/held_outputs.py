"""Further calls on the present inputs, whose outputs are only held. Standalone: the worker runs a copy.

A ring of buffers shows when it comes round, so calls are as many as a limit of processor time and of memory
allows. What is found here is a claim of a process that the candidate shares: it may refuse, never accept.
"""

import time
from typing import Any

# A copy beside this file.
import memory_guards  # type: ignore[import-not-found]
import torch


def run(model: Any, inputs: Any, kept: list[Any], command: Any, shim: Any) -> dict[str, Any]:
    """What `Further` is answered with; the outputs join `kept`. `shim` is `torch_shim`.

    Where no block runs, a call may fail over values that are not there: the calls before it count.
    """
    shim.end_record()
    groups = {"input": inputs, "parameter": model.state_dict(), "earlier output": kept}
    spans = {name: memory_guards.spans(value) for name, value in groups.items()}
    shared: set[str] = set()
    calls, left, stopped = 0, command.held_bytes, None
    with shim.without_blocks() if command.host_only else torch.no_grad():
        end = time.process_time() + command.seconds
        while calls < command.times and left > 0 and (calls == 0 or time.process_time() < end):
            try:
                outputs = memory_guards.leaves(model(*inputs))
            except Exception as error:  # noqa: BLE001 - candidate code raises what it likes
                if not command.host_only:
                    raise
                stopped = f"{type(error).__name__}: {error}"[:300]
                break
            calls += 1
            shared.update(kind for kinds in memory_guards.meeting(outputs, spans) for kind in kinds)
            spans["earlier output"] += memory_guards.spans(outputs)
            kept.append(outputs)
            left -= sum(tensor.numel() * tensor.element_size() for tensor in outputs)
    return {"calls": calls, "shared": sorted(shared), "stopped": stopped}
