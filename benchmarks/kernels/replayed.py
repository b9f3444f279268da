"""What a call takes on a GPU when many follow each other: replayed, by Python, and torch's own.

    python -m benchmarks.kernels.replayed

Microseconds from one call to the next, the least of the batches, for small shapes, in which the host's time
decides: a call without gradients, and a training step (forward and autograd.grad). Ours give the same both
ways, bit by bit, or the row says so. Builds what it measures, in parallel.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

os.environ["AGENT_KERNELS_ALWAYS"] = "1"

import torch

from agent.kernels import building, clock, parallel
from agent.kernels.replaying import extension
from agent.kernels.sweep import grid
from benchmarks.kernels import host

BATCH, BATCHES = 200, 9
ROWS = {name: host.NAMES[name] for name in host.NAMES if name not in ("add_layer_norm", "group_norm")}
"""Those of `host` whose libraries are built in a few seconds."""


def build() -> None:
    """The libraries and the extension."""
    arch = building.architecture(torch.cuda.get_device_capability())
    with ThreadPoolExecutor(1) as beside:
        begun = time.monotonic()
        made = beside.submit(extension.library)
        for _ in parallel.libraries(parallel.wanted(tuple(ROWS)), arch, os.cpu_count() or 1):
            pass
        made.result()
        print(f"built in {time.monotonic() - begun:.1f} s", flush=True)


def in_a_row(call: Callable[[], object]) -> float:
    """Microseconds of one of many."""
    for _ in range(20):
        call()
    return min(1000 * clock.in_a_row(call, BATCH) for _ in range(BATCHES))


def flat(result: object) -> list[torch.Tensor]:
    """The tensors of a call."""
    return [result] if isinstance(result, torch.Tensor) else list(result)  # type: ignore[call-overload]


def main() -> None:
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    build()
    print(f"{'us':16}{'call':>9} replayed  torch {'step':>11} replayed  torch")
    for kernel, name in ROWS.items():
        entries = {entry.name: entry.case for entry in grid.list_rows(kernel)}
        row, same = [], True
        for more in ("", " forward and backward"):
            case = entries[name + more]
            call, results = case.call(case.ours), []
            for _ in host.both_ways():
                row.append(in_a_row(call))
                results.append(flat(call()))
            row.append(in_a_row(case.call(case.native)))
            same &= all(torch.equal(one, other) for one, other in zip(*results, strict=True))
        numbers = "".join(f"{number:9.1f}" for number in row)
        print(f"{kernel:14}{numbers}{'' if same else '  RESULTS DIFFER'}", flush=True)


if __name__ == "__main__":
    main()
