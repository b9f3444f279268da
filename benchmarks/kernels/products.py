"""Matrix products of every layout on the present GPU: errors and times of matmul_fp32x3 beside torch's.

    python -m benchmarks.kernels.products layouts specials errors linear_errors times kernels > products.jsonl

A line for each case. Errors are against float64; times are the median of rounds with a cold L2, torch's
without TF32 as 1 (`speed`). Nothing here runs without a GPU.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from agent.kernels.matmul_fp32x3 import product as calls
from agent.kernels.matmul_fp32x3.product import Sum
from benchmarks.kernels import products_linear
from benchmarks.kernels.drawn import FAMILIES, normal, positive
from benchmarks.kernels.parts import run, spans

ROUNDS = 15
PLAIN = Sum(None, 1.0, 1.0)
Call = Callable[..., torch.Tensor]
Draw = Callable[[tuple[int, ...]], torch.Tensor]


@dataclass(frozen=True)
class Shape:
    """a [*, m, k] @ b [*, k, n]; `t` in `lies` names operands that lie transposed."""

    name: str
    a: tuple[int, ...]
    b: tuple[int, ...]
    lies: str = "nn"

    def operands(self, draw: Draw) -> tuple[torch.Tensor, torch.Tensor]:
        """Both, as they lie."""
        made = []
        for shape, lies in zip((self.a, self.b), self.lies, strict=True):
            made.append(draw((*shape[:-2], shape[-1], shape[-2])).mT if lies == "t" else draw(shape))
        return made[0], made[1]


def square(size: int, lies: str = "nn") -> Shape:
    """[size, size] @ [size, size]."""
    return Shape(f"{size} {lies}", (size, size), (size, size), lies)


def product(m: int, n: int, k: int, lies: str = "nn") -> Shape:
    """[m, k] @ [k, n]."""
    return Shape(f"{m} x {n} x {k} {lies}", (m, k), (k, n), lies)


KERNELBENCH = (
    Shape("1", (4096, 4096), (4096, 4096)), Shape("2", (2048, 8192), (8192, 4096)),
    Shape("3", (128, 512, 1024), (128, 1024, 2048)), Shape("6", (256, 524288), (524288, 256)),
    Shape("7", (32768, 64), (64, 32768)), Shape("8", (8205, 2949), (2949, 5921)),
    Shape("9", (32768, 32), (32, 32768)), Shape("10", (16, 1024, 2048), (2048, 768)),
    Shape("11", (8, 256, 512, 256), (256, 768)), Shape("16", (2048, 8192), (8192, 4096), "tn"),
    Shape("17", (2048, 8192), (8192, 4096), "nt"), Shape("18", (2048, 8192), (8192, 4096), "tt"),
)  # fmt: skip
"""KernelBench's level 1 by its numbers; 13 to 15 are of 1's shape, 4, 5 and 12 no products of matrices."""
SQUARES = tuple(square(size) for size in (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192))
OTHERS = (
    *(square(1024, lies) for lies in ("nt", "tn", "tt")),
    *(square(4096, lies) for lies in ("nt", "tn", "tt")),
    square(1023), square(2049), square(4097), product(64, 4096, 4096), product(32, 4096, 4096),
    product(16, 4096, 4096), product(128, 4096, 4096), product(4096, 128, 4096), product(4096, 64, 4096),
    product(256, 4096, 4096, "nt"), product(1024, 1024, 16384), product(128, 128, 65536),
    product(4096, 4096, 128), product(4096, 4096, 256), product(8192, 8192, 32), product(1000, 1000, 300),
    Shape("64 of 256", (64, 256, 256), (64, 256, 256)), Shape("512 of 128", (512, 128, 128), (512, 128, 128)),
    Shape("512 of 64", (512, 64, 64), (512, 64, 64)), Shape("16 of 1024", (16, 1024, 1024), (16, 1024, 1024)),
    Shape("heads qk", (8, 32, 512, 64), (8, 32, 64, 512), "nt"),
    Shape("heads av", (8, 32, 512, 512), (8, 32, 512, 64)),
)  # fmt: skip


DEPTHS = (32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)


def of(precision: str) -> Call:
    """The product on its own path, without the rule that leaves calls to torch."""
    return lambda a, b: calls.multiplied(a, b, PLAIN, precision)


def errors() -> Iterator[dict[str, object]]:
    """Root mean square errors, SGEMM's beside them."""
    sides: dict[str, Call] = {"fp32x3": of("fp32x3"), "fp32x4": of("fp32x4"), "torch": torch.matmul}
    for draw in FAMILIES:
        for m, n in ((512, 640), (2048, 1024)):
            for k in DEPTHS if m == 512 else DEPTHS[::3]:
                torch.manual_seed(k)
                a, b = draw((m, k), (n, k))
                b = b.mT
                truth = a.double() @ b.double()
                rms = {
                    name: float((side(a, b).double() - truth).square().mean().sqrt())
                    for name, side in sides.items()
                }
                yield {"family": draw.__name__, "mnk": (m, n, k), **rms}


def layouts() -> Iterator[dict[str, object]]:
    """The largest error over the sum of the products' sizes, at odd sizes and layouts."""
    sizes = ((1, 1, 40), (127, 129, 65), (130, 5, 4099), (640, 512, 1000), (33, 2050, 257))
    batches = (((), ()), ((3,), (3,)), ((2, 5), (5,)), ((2, 3), ()), ((2, 1), (3,)))
    worst = dict.fromkeys(calls.PRECISIONS, 0.0)
    for lies in ("nn", "nt", "tn", "tt"):
        for batch, of_b in batches:
            for m, n, k in sizes:
                a, b = Shape("", (*batch, m, k), (*of_b, k, n), lies).operands(normal)
                c = normal((n,))
                truth = 0.5 * (a.double() @ b.double()) + 2.0 * c.double()
                terms = 0.5 * (a.double().abs() @ b.double().abs()) + 2.0 * c.double().abs()
                for precision in calls.PRECISIONS:
                    y = calls.multiplied(a, b, Sum(c, 0.5, 2.0), precision)
                    off = float(((y.double() - truth).abs() / terms).max())
                    worst[precision] = max(worst[precision], off)
                    if not off < 2.0**-20:
                        yield {
                            "lies": lies,
                            "batch": batch,
                            "mnk": (m, n, k),
                            "precision": precision,
                            "off": off,
                        }
    yield {"worst": worst}


def specials() -> Iterator[dict[str, object]]:
    """How often infinities, NaN, zeros of either sign and overflow differ from torch's."""
    inf = float("inf")
    for m, n, k in ((300, 260, 64), (300, 260, 1000), (300, 260, 5000)):
        torch.manual_seed(0)
        a, b = normal((m, k)), normal((k, n))
        a[3], a[5, 7], a[6, 7:9], a[9, 11] = 0, inf, torch.tensor([inf, -inf]), float("nan")
        b[7, 8], b[20, 9], b[3, 10], b[:, 11], b[:, 12] = inf, -inf, float("nan"), -0.0, 3e38
        a[20], a[21], b[:, 13] = 3e38, 1e-42, 1e-44
        wanted = torch.matmul(a, b)
        for precision in calls.PRECISIONS:
            y = of(precision)(a, b)
            yield {
                "mnk": (m, n, k), "precision": precision, "nan": int((y.isnan() != wanted.isnan()).sum()),
                "inf": int((y.isinf() & (y != wanted) | wanted.isinf() & (y != wanted)).sum()),
                "sign of zero": int(((wanted == 0) & (y == 0) & (y.signbit() != wanted.signbit())).sum()),
                "zero": int(((wanted == 0) != (y == 0)).sum()),
            }  # fmt: skip


def times(shapes: tuple[Shape, ...] = (*KERNELBENCH, *SQUARES, *OTHERS)) -> Iterator[dict[str, object]]:
    """Of all sides, in ms."""
    sides: dict[str, Call] = {"fp32x3": of("fp32x3"), "fp32x4": of("fp32x4"), "torch": torch.matmul}
    for shape in shapes:
        a, b = shape.operands(positive)
        rounds = ROUNDS if a.numel() < 1 << 27 else 5
        ms = spans({name: partial(side, a, b) for name, side in sides.items()}, rounds)
        taken = calls.is_worth(a, b)
        yield {
            "name": shape.name,
            "a": shape.a,
            "b": shape.b,
            **ms,
            "speed": ms["torch"] / ms["fp32x3"],
            "taken": taken,
        }
        del a, b


def triangular() -> Iterator[dict[str, object]]:
    """KernelBench's 14 and 15, and one triangle: torch multiplies all of them."""
    for parts, finish in (
        (("upper", "upper"), torch.triu),
        (("lower", "lower"), torch.tril),
        (("lower", "whole"), None),
    ):
        for size in (1024, 4096):
            a, b = (calls.kept(positive((size, size)), part) for part in parts)
            ours = partial(calls.multiplied, a, b, PLAIN, "fp32x3", (*parts, "whole"))
            native = partial(torch.matmul, a, b) if finish is None else partial(_finished, finish, a, b)
            truth = a.double() @ b.double()
            rms = {"rms": float((ours().double() - truth).square().mean().sqrt()),
                   "torch_rms": float((native().double() - truth).square().mean().sqrt())}  # fmt: skip
            ms = spans({"fp32x3": ours, "torch": native}, ROUNDS)
            yield {"parts": parts, "size": size, **ms, "speed": ms["torch"] / ms["fp32x3"], **rms}


def _finished(finish: Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return finish(torch.matmul(a, b))


def kernels() -> Iterator[dict[str, object]]:
    """What each kernel of a call takes, in us."""
    picked = (
        *(square(size) for size in (512, 1024, 1536, 2048, 4096)),
        square(1024, "nt"),
        product(128, 4096, 4096),
        *(KERNELBENCH[i] for i in (2, 3, 4, 8)),
    )
    for shape in picked:
        a, b = shape.operands(positive)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(3):
                of("fp32x3")(a, b)
            torch.cuda.synchronize()
        taken = {
            event.key[:60]: event.self_device_time_total / event.count for event in profile.key_averages()
        }
        yield {"name": shape.name, "us": {name: round(span, 1) for name, span in taken.items() if span}}
        del a, b


def main() -> None:
    """The parts named by the arguments."""
    torch.backends.cuda.matmul.allow_tf32 = False
    parts = {
        "errors": errors, "layouts": layouts, "specials": specials, "times": times, "kernels": kernels,
        "triangular": triangular, "squares": lambda: times(SQUARES), "linear_errors": products_linear.errors,
    }  # fmt: skip
    run(parts, sys.argv[1:])


if __name__ == "__main__":
    main()
