"""GPU work of one call, by torch's profiler. Standalone: the worker runs a copy of this file."""

from collections.abc import Callable
from typing import Any

import torch
from torch import profiler

TORCH = "aten::"


def kernels(call: Callable[[], Any]) -> list[dict[str, Any]]:
    """Return kernels, copies and fills, each with the torch operators that launched it, innermost first."""
    watched = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    with torch.no_grad(), profiler.profile(activities=watched, acc_events=True) as seen:
        call()
        torch.cuda.synchronize()
    events = seen.events() or []
    launched: dict[str, list[list[str]]] = {}
    for event in events:
        for kernel in event.kernels:
            launched.setdefault(kernel.name, []).append(operators(event))
    return [
        {
            "name": event.name,
            "us": event.device_time,
            "stream": event.device_resource_id,
            "operators": (launched.get(event.name) or [[]]).pop(0),
        }
        for event in events
        # A user annotation is listed as a CUDA event too, and is left out.
        if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
    ]


def operators(event: Any) -> list[str]:
    """Return the names of torch operators around a host event, innermost first, including the event."""
    found = []
    while event is not None:
        if event.name.startswith(TORCH) and event.scope == 0:
            found.append(event.name.removeprefix(TORCH))
        event = event.cpu_parent
    return found
