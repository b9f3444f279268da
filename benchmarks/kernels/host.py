"""What a call of a shipped kernel costs the host: everything but the launch, which a stub stands in for.

    python -m benchmarks.kernels.host            # all
    python -m benchmarks.kernels.host --only gelu --profile

Needs no GPU: tensors lie on the CPU, routing is told that they do not, and a C library takes every launch and
does nothing. Microseconds of processor time of one call without gradients, and of a training step (forward
and autograd.grad), the least of the batches: by Python, replayed in C++, and by torch's own operator, which
also computes the few elements that the tensors have. Then the forward operator alone as compiled code calls
it, by the dispatcher and replayed, with its statistics. Above them a step of an `autograd.Function` that only
makes its results, which is what autograd itself costs by Python.
"""

import argparse
import cProfile
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agent.kernels import operators, routing
from agent.kernels.binding import Library
from agent.kernels.case import Case
from agent.kernels.replaying import replayed
from agent.kernels.sweep import grid

BATCH, BATCHES = 200, 15
NAMES = {
    "gelu": "gelu [1, 3072] float32", "softmax": "softmax [256, 1000] float32",
    "logsumexp": "logsumexp [256, 1000] float32", "rms_norm": "rms_norm [1, 4096] bfloat16",
    "layer_norm": "layer_norm [1, 197, 768] float32", "add_rms_norm": "add_rms_norm [1, 4096] bfloat16",
    "add_layer_norm": "add_layer_norm [1, 197, 768] float32",
    "group_norm": "group_norm [1, 256] float32 8 groups",
    "gate_product": "gate_product [1, 14336] bfloat16 two tensors, silu",
    "rotary": "rotary [1, 32, 1, 128] bfloat16 half a row apart, positions at -2",
    "cross_entropy": "cross_entropy [512, 100] float32",
}  # fmt: skip
SMALL = 16
"""What longer dimensions are cut to: a stub's time does not depend on them, and torch computes."""
STUB = """
extern "C" {
int forward(const void*) { return 0; }
int backward(const void*) { return 0; }
long forward_workspace(const void*) { return 256; }
long backward_workspace(const void*) { return 256; }
const char* error_text(int) { return ""; }
}
"""


@cache
def stub(kernel: str) -> Library:
    """A library whose every launch succeeds."""
    folder = Path(tempfile.mkdtemp())
    (folder / "stub.cpp").write_text(STUB, encoding="utf-8")
    made = folder / "stub.so"
    subprocess.run(["g++", "-O2", "-shared", "-fPIC", folder / "stub.cpp", "-o", made], check=True)
    return Library(kernel, made)


def stand_in() -> None:
    """Sends CPU tensors the way that CUDA ones take."""
    routing.missing = lambda *_: None
    routing.library = lambda kernel, *_: stub(kernel)
    torch._C._cuda_getCurrentRawStream = lambda device: 0
    real = routing.obstacle

    def obstacle(kernel: str, x: torch.Tensor, parameters: Any, dtypes: Any = routing.DTYPES) -> str | None:
        real(kernel, x, parameters, dtypes)
        return None

    routing.obstacle = obstacle
    operators.on_device = lambda x: True


def both_ways() -> Iterator[None]:
    """Calls by Python, then replayed."""
    for replay in "01":
        os.environ["AGENT_KERNELS_REPLAY"] = replay
        routing.reset()
        replayed.load()
        yield


def small(case: Case) -> Case:
    """The same call on tensors of a few elements, where the case makes no others of its own."""
    if case.kernel in ("rotary", "cross_entropy"):
        return case

    def cut(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(min(size, SMALL) for size in shape)

    return replace(case, shape=cut(case.shape), parameters=tuple(map(cut, case.parameters)))


def least(call: Callable[[], object]) -> float:
    """Microseconds."""
    for _ in range(20):
        call()
    spans = []
    for _ in range(BATCHES):
        begin = time.process_time_ns()
        for _ in range(BATCH):
            call()
        spans.append((time.process_time_ns() - begin) / 1000 / BATCH)
    return min(spans)


class Nothing(torch.autograd.Function):
    """As many tensors as a norm has."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *others: Any) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return (torch.empty_like(x), *[None] * (len(ctx.needs_input_grad) - 1))


class Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """The last call of an operator of ours."""

    call: Callable[[], object]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace == operators.NAMESPACE:
            self.call = partial(function, *args)
        return function(*args, **(kwargs or {}))


def dispatched(call: Callable[[], object]) -> Callable[[], object]:
    """The operator that a call without gradients comes to, by the dispatcher."""
    with Seen() as seen:  # type: ignore[no-untyped-call]
        call()
    operator: Callable[[], object] = seen.call
    return operator


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--profile", action="store_true", help="where a training step's time goes")
    given = parser.parse_args()
    torch.set_num_threads(1)
    stand_in()
    nothing = torch.randn(1, 3072, requires_grad=True)
    grad = torch.ones(1, 3072)
    alone: Callable[..., torch.Tensor] = Nothing.apply
    base = least(lambda: torch.autograd.grad(alone(nothing, None, None), nothing, grad))
    print(f"{'autograd alone':16} {'':8} {base:8.1f}")
    print(f"{'':16} {'call':>26} {'training step':>26} {'compiled':>9}")
    print(f"{'':16} {'Python  replayed  torch':>26} {'Python  replayed  torch':>26} {'replayed':>9}")
    for name in given.only or NAMES:
        entries = {entry.name: small(entry.case) for entry in grid.list_rows(name)}
        cases = [entries[NAMES[name] + more] for more in ("", " forward and backward")]
        times = []
        for case in cases:
            call, native = case.call(case.ours, "cpu"), case.call(case.native, "cpu")
            times.append((*(least(call) for _ in both_ways()), least(native)))
        operator = dispatched(cases[0].call(cases[0].ours, "cpu"))
        with torch.no_grad():
            times.append((least(operator),))
        print(f"{name:16}", *("".join(f"{time:9.1f}" for time in some) for some in times), flush=True)
        if given.profile:
            training = cases[1].call(cases[1].ours, "cpu")
            with cProfile.Profile() as profile:
                for _ in range(2000):
                    training()
            pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(22)


if __name__ == "__main__":
    main()
