"""matmul_fp32x3 and conv_fp32x3, for `tests.gpu.kernels`: what no CPU can show of them.

The tensor cores' paths are called as they are, without the rules that leave calls to torch.
"""

import torch

from agent.kernels import conv_fp32x3, conv_transpose_fp32x3, linear_fp32x3, matmul_fp32x3
from agent.kernels.conv_fp32x3 import product as convolutions
from agent.kernels.conv_fp32x3.window import Window
from agent.kernels.matmul_fp32x3 import product as products
from agent.kernels.matmul_fp32x3.product import Sum
from benchmarks.kernels.convolutions import convolution_errors
from benchmarks.kernels.drawn import FAMILIES, cancelling, doubled, pruned

from .kernel_calls import close

EXACT = 2.0**-20
"""Of the sum of the products' absolute values: hi * hi alone is 2^-12 off."""
SIZES = [(1, 1, 40), (127, 129, 65), (130, 5, 4099), (640, 512, 1000), (33, 2050, 257), (300, 777, 3100)]
BATCHES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()), ((3,), (3,)), ((2, 5), (5,)), ((2, 3), ()), ((2, 1), (3,))
]  # fmt: skip
DEPTHS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
WINDOWS: list[tuple[tuple[int, ...], tuple[int, ...], Window]] = [
    ((4, 64, 56, 56), (64, 64, 3, 3), Window((1, 1), (1, 1), (1, 1), False, (0, 0))),
    ((2, 3, 64, 70), (96, 3, 11, 11), Window((4, 4), (2, 2), (1, 1), False, (0, 0))),
    ((2, 32, 40, 50), (200, 32, 5, 9), Window((1, 1), (2, 4), (2, 3), False, (0, 0))),
    ((3, 16, 300), (130, 16, 3), Window((3,), (2,), (4,), False, (0,))),
    ((2, 8, 20, 21, 22), (12, 4, 3, 3, 3), Window((1, 2, 1), (1, 0, 2), (1, 1, 1), False, (0, 0, 0), 2)),
    ((2, 48, 12, 13, 14), (48, 24, 3, 3, 3), Window((1, 1, 1), (0, 1, 0), (1, 1, 1), True, (0, 0, 0))),
    ((2, 32, 30, 20), (32, 64, 3, 3), Window((5, 2), (1, 1), (2, 1), True, (0, 1))),
]  # fmt: skip


def lying(shape: tuple[int, ...], transposed: bool) -> torch.Tensor:
    if transposed:
        return torch.randn((*shape[:-2], shape[-1], shape[-2]), device="cuda").mT
    return torch.randn(shape, device="cuda")


def products_of_any_layout() -> None:
    torch.manual_seed(0)
    for of_a, of_b in BATCHES:
        for m, n, k in SIZES:
            for lies in range(4):
                a, b = lying((*of_a, m, k), bool(lies & 1)), lying((*of_b, k, n), bool(lies & 2))
                c = torch.randn(n, device="cuda")
                truth = 0.5 * (a.double() @ b.double()) + 2.0 * c.double()
                terms = 0.5 * (a.double().abs() @ b.double().abs()) + 2.0 * c.double().abs()
                for precision in products.PRECISIONS:
                    y = products.multiplied(a, b, Sum(c, 0.5, 2.0), precision)
                    off = float(((y.double() - truth).abs() / terms).max())
                    assert off < EXACT, f"{precision}, {of_a} {of_b}, {(m, n, k)}, {lies}: {off:.3g}"


def products_stay_in_float32_under_autocast() -> None:
    """Those that are left to torch for their sizes too."""
    a, b = torch.randn(40, 50, device="cuda"), torch.randn(50, 50, device="cuda")
    with torch.autocast("cuda"):
        close(matmul_fp32x3(a, b), a.double() @ b.double(), 1e-5)
        close(linear_fp32x3(a, b), a.double() @ b.double().mT, 1e-5)
        close(conv_fp32x3(a.mT[None], b[..., None])[0], b.double() @ a.double().mT, 1e-5)


def products_errors_are_at_most_twice_sgemms() -> None:
    """Root mean square, at every depth and for every kind of operands."""
    torch.backends.cuda.matmul.allow_tf32 = False
    above = []
    for k in DEPTHS:
        for drawn in FAMILIES:
            torch.manual_seed(k)
            a, b = drawn((1024, k), (2048, k))
            b = b.mT
            truth = a.double() @ b.double()
            sgemm = float((torch.matmul(a, b).double() - truth).square().mean().sqrt())
            for precision in ("fp32x3", "fp32x4", "bf16x6"):
                y = products.multiplied(a, b, Sum(None, 1.0, 1.0), precision)
                ours = float((y.double() - truth).square().mean().sqrt())
                if ours > 2 * sgemm:
                    above.append(f"{precision}, K={k}, {drawn.__name__}: {ours:.3g} for {sgemm:.3g}")
    assert not above, "; ".join(above)


def products_nan_and_inf_as_torch() -> None:
    inf = float("inf")
    for k in (64, 1000, 5000):
        torch.manual_seed(0)
        a, b = torch.randn(300, k, device="cuda"), torch.randn(k, 260, device="cuda")
        a[5, 7], a[6, 7], a[6, 8], a[9, 11], a[140, 3] = inf, inf, -inf, float("nan"), -inf
        b[7, 8], b[20, 9], b[3, 10], b[7, 5] = inf, -inf, float("nan"), 0
        wanted = torch.matmul(a, b)
        for precision in products.PRECISIONS:
            y = products.multiplied(a, b, Sum(None, 1.0, 1.0), precision)
            assert torch.equal(y.isnan(), wanted.isnan()), f"{precision}, K={k}: NaN elsewhere"
            assert torch.equal(y[wanted.isinf()], wanted[wanted.isinf()]), (
                f"{precision}, K={k}: inf elsewhere"
            )


def products_under_torchs_machinery() -> None:
    """opcheck, gradients, one graph for every batch, a CUDA graph, runs that agree to the bit."""
    for size in (64, 1536):
        a, b = (torch.randn(size, size, device="cuda", requires_grad=True) for _ in range(2))
        c = torch.randn(size, device="cuda", requires_grad=True)
        exact = [t.detach().double().requires_grad_() for t in (a, b, c)]
        truth = exact[0].mT @ exact[1] + exact[2]
        grad = torch.randn_like(truth)
        for precision in products.PRECISIONS:
            value = matmul_fp32x3(a.mT, b, c, precision=precision)
            close(value, truth, 4e-6)
            wanted = torch.autograd.grad(truth, exact, grad, retain_graph=True)
            found = torch.autograd.grad(value, (a, b, c), grad.float())
            for mine, theirs in zip(found, wanted, strict=True):
                close(mine, theirs, 4e-6)
        with torch.no_grad():
            graph = torch.cuda.CUDAGraph()
            first = matmul_fp32x3(a, b, precision="fp32x4")
            with torch.cuda.graph(graph):
                value = matmul_fp32x3(a, b, precision="fp32x4")
            graph.replay()
            assert torch.equal(value, first), "a replayed graph gives something else"
    operator = torch.ops.kernelwright.matmul_fp32x3_forward.default
    torch.library.opcheck(operator, (a, b, c, 1.0, 1.0, "fp32x4", *products.WHOLE))


def convolutions_of_any_window() -> None:
    torch.manual_seed(0)
    for x_shape, weight_shape, window in WINDOWS:
        x, weight = torch.randn(x_shape, device="cuda"), torch.randn(weight_shape, device="cuda")
        truth = torch.convolution(x.double(), weight.double(), None, *window)
        terms = torch.convolution(x.double().abs(), weight.double().abs(), None, *window).clamp_min(1e-6)
        for precision in ("fp32x3", "ieee"):
            y = convolutions.convolved(x, weight, None, window, precision)
            off = float(((y.double() - truth).abs() / terms).max())
            assert off < EXACT, f"{precision}, {x_shape}, {weight_shape}, {window}: {off:.3g}"


def convolutions_errors_are_at_most_twice_sgemms() -> None:
    """Of all kinds of operands but sums that cancel in the order in which SGEMM adds them."""
    above = [
        f"{line['family']} at {line['shape']}: {line['fp32x3']:.3g} for {line['sgemm']:.3g}"
        for line in convolution_errors()
        if line["family"] != "cancelling and doubled" and line["fp32x3"] > 2 * line["sgemm"]
    ]
    assert not above, "; ".join(above)


def convolutions_under_torchs_machinery() -> None:
    x = torch.randn(2, 8, 20, 22, device="cuda", requires_grad=True)
    weight = torch.randn(8, 8, 3, 3, device="cuda", requires_grad=True)
    for function, native in (
        (conv_fp32x3, torch.nn.functional.conv2d),
        (conv_transpose_fp32x3, torch.nn.functional.conv_transpose2d),
    ):
        for precision in ("fp32x3", "ieee"):
            value = function(x, weight, None, 2, 1, precision=precision)
            close(value, native(x.double(), weight.double(), None, 2, 1), 4e-6)
            torch.autograd.grad(value.sum(), (x, weight))


def small() -> None:
    """What compute-sanitizer watches."""
    for precision in products.PRECISIONS:
        a, b = torch.randn(130, 270, device="cuda"), torch.randn(140, 270, device="cuda").mT
        products.multiplied(a, b, Sum(None, 1.0, 1.0), precision)
        for of_a, of_b in ((pruned, pruned), (cancelling, doubled)):
            products.multiplied(of_a((130, 270)), of_b((140, 270)).mT, Sum(None, 1.0, 1.0), precision)
    x_shape, weight_shape, window = WINDOWS[6]
    for precision in ("fp32x3", "ieee"):
        x, weight = torch.randn(x_shape, device="cuda"), torch.randn(weight_shape, device="cuda")
        convolutions.convolved(x[:, :, :6, :7], weight, None, window, precision)
        x[:, ::8] *= 2.0**20
        weight[::8] = 0
        convolutions.convolved(x[:, :, :6, :7], weight, None, window, precision)


CHECKS = (
    products_of_any_layout, products_stay_in_float32_under_autocast,
    products_errors_are_at_most_twice_sgemms, products_nan_and_inf_as_torch,
    products_under_torchs_machinery, convolutions_of_any_window,
    convolutions_errors_are_at_most_twice_sgemms, convolutions_under_torchs_machinery,
)  # fmt: skip
