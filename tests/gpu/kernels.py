"""The shipped kernels on a real GPU: `python -m tests.gpu.kernels [--out FILE] [--only START...] [--quick]`.

Runs what no CPU can show, each check on its own, and writes one JSON document: passed, failed with the
reason, or left out with the reason. Exits 1 when a check failed. Made for five minutes on one GPU; 2^31
elements take 40 GB and are left out by --quick. compute-sanitizer runs this file again as its child.
"""

import argparse
import shutil
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from agent.kernels import GroupNorm, gelu, group_norm, info, layer_norm, replace_modules, softmax
from agent.kernels.routing import Fallback
from benchmarks import storage

from . import fusing_checks, linear_checks, product_checks, verify
from .conv_calls import convolution_and_all_that_follows
from .kernel_calls import CALLS, DTYPES, SHAPES, close, compared, drawn, operators

Check = Callable[[], str | None]
"""Raises what is wrong; answers why it was left out, or None."""
TENSORS = 2**31 + 1024
CALLS_OF_A_KIND = 3
"""The third is replayed, forward and backward."""


def values_and_gradients() -> None:
    for name, (_, _, parameters) in CALLS.items():
        for dtype, allowed in DTYPES.items():
            for shape in SHAPES:
                for _ in range(CALLS_OF_A_KIND):
                    compared(name, drawn(name, shape, dtype, parameters), allowed)


def layouts() -> None:
    for name, (_, _, parameters) in CALLS.items():
        x, *others = drawn(name, (2, 8, 12, 16), torch.float32, parameters)
        for view in (
            x.detach().contiguous(memory_format=torch.channels_last),
            x.detach().transpose(2, 3).contiguous().transpose(2, 3),
            torch.randn(2 * 8 * 12 * 16 + 1, device="cuda")[1:].view(2, 8, 12, 16),
            torch.randn(2, 8, 24, 16, device="cuda")[:, :, ::2],
        ):
            compared(name, [view.requires_grad_(), *others], 2e-5)


def empty_inputs() -> None:
    for shape in ((0, 8, 4), (2, 8, 0)):
        for function in (gelu, lambda x: softmax(x, 1), lambda x: group_norm(x, 2)):
            x = torch.empty(shape, device="cuda", requires_grad=True)
            y = function(x)
            torch.autograd.grad(y.sum(), x)
            assert y.shape == x.shape


def offset_of_a_thousand() -> None:
    for shape in SHAPES[2:]:
        x = torch.randn(shape, device="cuda") + 1e3
        close(group_norm(x, 2), F.group_norm(x.double(), 2), 2e-4)
        close(layer_norm(x, x.shape[-1:]), F.layer_norm(x.double(), x.shape[-1:]), 2e-4)


def nan_and_inf_as_torch() -> None:
    for special in (float("nan"), float("inf"), -float("inf")):
        for name, (ours, native, parameters) in CALLS.items():
            tensors = [t.detach() for t in drawn(name, (4, 8, 16, 16), torch.float32, parameters)]
            tensors[0][1, 3, 5, 7] = special
            mine, theirs = ours(*tensors), native(*tensors)
            assert torch.equal(mine.isnan(), theirs.isnan()), f"{name}: NaN elsewhere for {special}"
            assert torch.equal(mine.isinf(), theirs.isinf()), f"{name}: inf elsewhere for {special}"


def runs_agree_to_the_bit() -> None:
    for name, (ours, _, parameters) in CALLS.items():
        tensors = drawn(name, (8, 64, 96, 96), torch.float32, parameters)
        first = torch.autograd.grad(ours(*tensors).square().sum(), tensors)
        for _ in range(3):
            again = torch.autograd.grad(ours(*tensors).square().sum(), tensors)
            assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True)), name


def opcheck() -> None:
    """Over the CUDA implementations."""
    for operator, arguments in operators():
        torch.library.opcheck(operator.default, arguments)


def compiles_whole_for_every_batch() -> None:
    for name, (ours, native, parameters) in CALLS.items():
        torch._dynamo.reset()
        compiled = torch.compile(ours, fullgraph=True, dynamic=True)
        _, *others = drawn(name, (2, 8, 12, 16), torch.float32, parameters)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for batch in (3, 5, 9) * CALLS_OF_A_KIND:
                x = torch.randn(batch, 8, 12, 16, device="cuda", requires_grad=True)
                value, truth = compiled(x, *others), native(x.double(), *(other.double() for other in others))
                close(value, truth, 2e-5)
                grads, truths = (
                    torch.autograd.grad(one.square().sum(), (x, *others)) for one in (value, truth)
                )
                for mine, theirs in zip(grads, truths, strict=True):
                    close(mine, theirs.double(), 1e-4)


def captured_in_a_graph() -> None:
    for name, (ours, native, parameters) in CALLS.items():
        tensors = [t.detach() for t in drawn(name, (4, 64, 128, 128), torch.float32, parameters)]
        with torch.no_grad():
            ours(*tensors)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                value = ours(*tensors)
            for _ in range(3):
                tensors[0].normal_()
                graph.replay()
            close(value, native(*(t.double() for t in tensors)), 2e-5)


def second_stream() -> None:
    """The input is made late on the second stream: a kernel on the first would read what was there before."""
    for name, (ours, native, parameters) in CALLS.items():
        tensors = [t.detach() for t in drawn(name, (2, 8, 64, 64), torch.float32, parameters)]
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        for _ in range(CALLS_OF_A_KIND):  # on the first stream: what is replayed takes the second
            ours(*tensors)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)  # type: ignore[no-untyped-call]
            tensors[0].mul_(3)
            value = ours(*tensors)
        stream.synchronize()
        close(value, native(*(t.double() for t in tensors)), 2e-5)


def second_device() -> str | None:
    if torch.cuda.device_count() < 2:
        return "there is one GPU"
    x = torch.randn(2, 8, 64, 64, device="cuda:1")
    for _ in range(CALLS_OF_A_KIND):
        close(group_norm(x, 2), F.group_norm(x.double(), 2), 2e-5)
    assert torch.cuda.current_device() == 0
    return None


def past_two_to_the_31() -> str | None:
    if QUICK:
        return "--quick"
    free, _ = torch.cuda.mem_get_info()
    if free < 40e9:
        return f"it takes 40 GB, and {free / 1e9:.0f} are free"
    x = torch.randn(TENSORS // 1024, 1024, device="cuda", dtype=torch.float16)
    for ours, native in ((gelu, F.gelu), (lambda t: softmax(t, 1), lambda t: torch.softmax(t, 1))):
        y = ours(x)
        for part in (slice(0, 2), slice(-2, None)):
            close(y[part], native(x[part].double()), 4e-3)
        del y
    wide = x.view(-1)[: 2**31 + 512].view(2, 8, -1)
    y = group_norm(wide, 2)
    truth = F.group_norm(wide[1, 4:].double().unsqueeze(0), 1).squeeze(0)
    close(y[1, 4:, -1000:], truth[:, -1000:], 4e-3)
    return None


def autocast_as_torch() -> None:
    x = torch.randn(2, 8, 16, device="cuda", dtype=torch.float16)
    with torch.autocast("cuda"):
        assert group_norm(x, 2).dtype == F.group_norm(x, 2).dtype
        assert softmax(x, 1).dtype == torch.softmax(x, 1).dtype
        assert layer_norm(x, (16,)).dtype == F.layer_norm(x, (16,)).dtype
        assert gelu(x).dtype == F.gelu(x).dtype


def users_script() -> None:
    """The README's: a drop-in in a small network, a training step, under torch.compile."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.GroupNorm(8, 32), nn.GELU(), nn.Flatten(), nn.LazyLinear(10)
    ).cuda()
    x = torch.randn(4, 3, 32, 32, device="cuda")
    wanted = model(x)
    loss = wanted.square().mean()
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    done = replace_modules(model)
    assert list(done.swapped.values()) == ["GroupNorm", "GELU"], str(done)
    assert isinstance(model[1], GroupNorm)
    for network in (model, torch.compile(model, fullgraph=True)):
        value = network(x)
        close(value, wanted.double(), 1e-4)
        found = torch.autograd.grad(value.square().mean(), list(model.parameters()))
        for mine, theirs in zip(found, gradients, strict=True):
            close(mine, theirs.double(), 1e-4)
    assert info("group_norm")["group_norm"].fallbacks == {}


def sanitizer() -> Iterator[tuple[str, Check]]:
    """memcheck and racecheck over small calls, in a child."""

    def under(tool: str) -> str | None:
        found = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
        if found is None:
            return "there is no compute-sanitizer"
        command = [found, "--tool", tool, "--error-exitcode", "9", sys.executable, "-m", "tests.gpu.kernels"]
        child = subprocess.run(
            [*command, "--small"], capture_output=True, text=True, check=False, timeout=150
        )
        assert child.returncode == 0, (child.stdout + child.stderr)[-2000:]
        return None

    for tool in ("memcheck", "racecheck"):
        yield tool, lambda tool=tool: under(tool)  # type: ignore[misc]


def small() -> None:
    """What a tool of compute-sanitizer watches."""
    for name, (ours, _, parameters) in CALLS.items():
        for shape in ((3, 8, 7, 5), (1, 4, 96, 96)):
            tensors = drawn(name, shape, torch.float32, parameters)
            torch.autograd.grad(ours(*tensors).sum(), tensors)
    linear_checks.small()
    product_checks.small()
    torch.cuda.synchronize()


CHECKS: tuple[Callable[[], str | None], ...] = (
    users_script, opcheck, values_and_gradients, layouts, empty_inputs, offset_of_a_thousand,
    nan_and_inf_as_torch, runs_agree_to_the_bit, autocast_as_torch, captured_in_a_graph, second_stream,
    second_device, compiles_whole_for_every_batch, past_two_to_the_31, convolution_and_all_that_follows,
    *fusing_checks.CHECKS,
    *linear_checks.CHECKS,
    *product_checks.CHECKS,
)  # fmt: skip
QUICK = False


def outcome(check: Check) -> dict[str, object]:
    started = time.monotonic()
    try:
        with warnings.catch_warnings():
            # A kernel that gives way to torch would be compared with itself.
            warnings.simplefilter("error", Fallback)
            reason = check()
        result: dict[str, object] = {"left_out": reason} if reason else {"passed": True}
    except Exception as error:  # noqa: BLE001 - one check's failure is a line of the report
        result = {"passed": False, "error": f"{type(error).__name__}: {error}"[:500]}
        result["where"] = traceback.format_exc().splitlines()[-4:]
    torch.cuda.empty_cache()
    return {**result, "seconds": round(time.monotonic() - started, 1)}


def main() -> int:
    global QUICK
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
    parser.add_argument("--only", nargs="+", help="checks whose names begin so")
    parser.add_argument("--calls", nargs="+", help="of kernel_calls.CALLS those alone that begin so")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--small", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.stderr.write("no NVIDIA GPU answers here: these checks need one\n")
        return 3
    if given.small:
        small()
        return 0
    QUICK = given.quick
    for name in [name for name in CALLS if not name.startswith(tuple(given.calls or ("",)))]:
        del CALLS[name]
    checks = [*((check.__name__, check) for check in CHECKS), *sanitizer()]
    begins = tuple(given.only or ("",))
    report: dict[str, dict[str, object]] = {}
    for name, check in checks:
        if name.startswith(begins):
            report[name] = found = outcome(check)
            sys.stderr.write(f"{name}: {found}\n")
    document = {**verify.circumstances(given.commit), "checks": report}
    sys.stdout.write(storage.text(document))
    if given.out:
        storage.write(given.out, document)
    return int(any(found.get("passed") is False for found in report.values()))


if __name__ == "__main__":
    sys.exit(main())
