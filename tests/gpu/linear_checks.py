"""linear_fp32x3 and the fused kernel over it, for `tests.gpu.kernels`: what no CPU can show of them."""

import torch
import torch.nn.functional as F
from torch import nn

from agent.kernels import LinearFP32x3, linear_fp32x3, linear_group_norm_min_bias, prepare_weight
from benchmarks.kernels.drawn import FAMILIES

from .kernel_calls import close

SIZES = [(1, 1, 1), (3, 130, 67), (1, 1, 256), (129, 7, 320), (256, 512, 1024), (300, 777, 515)]
DEPTHS = (256, 384, 512, 1024, 2048, 4096, 8192, 16384)
"""From 256 on the tensor cores compute."""
WIDTHS = (6, 8, 16, 32, 64, 128, 24, 256)
"""Of a group; those that divide 128 from 8 on stand in the product's epilogue."""


def drawn(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    shapes = ((m, k), (n, k), (n,))
    x, weight, bias = (torch.randn(shape, device="cuda", requires_grad=True) for shape in shapes)
    return x, weight, bias


def fused(tensors: list[torch.Tensor], width: int, precision: str = "fp32x3") -> torch.Tensor:
    x, weight, linear_bias, gamma, beta, bias = tensors
    groups = weight.shape[0] // width
    return linear_group_norm_min_bias(x, weight, linear_bias, groups, gamma, beta, bias, precision=precision)


def fused_by_torch(tensors: list[torch.Tensor], width: int) -> torch.Tensor:
    x, weight, linear_bias, gamma, beta, bias = tensors
    z = F.group_norm(F.linear(x, weight, linear_bias), weight.shape[0] // width, gamma, beta)
    return z.min(1, keepdim=True).values + bias


def of_fused(m: int, n: int, k: int) -> list[torch.Tensor]:
    gamma, beta = (torch.randn(n, device="cuda", requires_grad=True) for _ in range(2))
    bias = torch.randn(1, 5, 1, 1, device="cuda", requires_grad=True)
    return [*drawn(m, n, k), gamma, beta, bias]


def linear_values_and_gradients() -> None:
    for size in SIZES:
        tensors = drawn(*size)
        exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
        truth = F.linear(*exact)
        grad = torch.randn_like(truth)
        wanted = torch.autograd.grad(truth, exact, grad)
        for precision in ("fp32x3", "ieee"):
            value = linear_fp32x3(*tensors, precision=precision)
            close(value, truth, 4e-6)
            found = torch.autograd.grad(value, tensors, grad.float())
            for mine, theirs in zip(found, wanted, strict=True):
                close(mine, theirs, 4e-6)


def linear_errors_are_not_above_sgemms() -> None:
    """Root mean square (as the norm 2) and largest, at every depth; values of both signs, and of one."""
    torch.backends.cuda.matmul.allow_tf32 = False
    above = []
    for k in DEPTHS:
        for sign in ("both", "one"):
            x, weight, _ = (tensor.detach() for tensor in drawn(1024, 2048, k))
            x, weight = (x, weight) if sign == "both" else (x.abs(), weight.abs())
            truth = F.linear(x.double(), weight.double())
            ours, sgemm = (f(x, weight).double() - truth for f in (linear_fp32x3, F.linear))
            for norm in (2.0, float("inf")):
                mine, native = (float(torch.linalg.vector_norm(e, norm)) for e in (ours, sgemm))
                if mine > native:
                    above.append(f"K={k}, {sign}, norm {norm}: {mine:.3g} for {native:.3g}")
    assert not above, "; ".join(above)


def linear_small_values_beside_large_ones() -> None:
    """Where these meet zeros the layer's and its fusion's rms errors are at most twice SGEMM's."""
    torch.backends.cuda.matmul.allow_tf32 = False
    zero = torch.zeros(1, 1, 1, 1, device="cuda")

    def least(y: torch.Tensor) -> torch.Tensor:
        return F.group_norm(y, y.shape[1] // 16).min(1).values

    for k in DEPTHS[::3]:
        for size in (2.0**20, 2.0**40):
            large, zeros, _ = (tensor.detach() for tensor in drawn(1024, 2048, k))
            large[:, ::8] *= size
            zeros[:, ::8] = 0
            for x, weight in ((large, zeros), (zeros, large)):
                ready, truth = prepare_weight(weight), F.linear(x.double(), weight.double())
                native = F.linear(x, weight)
                fused = linear_group_norm_min_bias(x, ready, None, len(weight) // 16, None, None, zero)
                for mine, theirs, exact in (
                    (linear_fp32x3(x, ready), native, truth),
                    (fused.view(-1), least(native), least(truth)),
                ):
                    off, by_torch = (float((y.double() - exact).norm()) for y in (mine, theirs))
                    assert off <= 2 * by_torch, f"K={k}, {size:.0g}: {off:.3g} for {by_torch:.3g}"


def linear_errors_are_at_most_twice_sgemms() -> None:
    """Root mean square, for every kind of operands, where an SGEMM shares the depth out and where not."""
    torch.backends.cuda.matmul.allow_tf32 = False
    above = []
    for m, n, k in ((130, 132, 512), (512, 640, 320), (512, 640, 16384), (2048, 2560, 1024)):
        for operands in FAMILIES:
            torch.manual_seed(k)
            x, weight = operands((m, k), (n, k))
            truth = F.linear(x.double(), weight.double())
            y = linear_fp32x3(x, prepare_weight(weight))
            mine, native = (float((v.double() - truth).norm()) for v in (y, F.linear(x, weight)))
            if mine > 2 * native:
                above.append(f"{(m, n, k)}, {operands.__name__}: {mine:.3g} for {native:.3g}")
    assert not above, "; ".join(above)


def linear_rows_of_any_scale() -> None:
    """From denormals to near the largest float; ieee may add infinities of both signs, which is NaN."""
    x, weight, _ = (tensor.detach() for tensor in drawn(256, 256, 256))
    x *= torch.logspace(-44, 36, 256, device="cuda")[:, None]
    weight *= torch.logspace(-30, 30, 256, device="cuda")[:, None]
    weight[3], x[5] = 0, 0
    truth = F.linear(x.double(), weight.double())
    terms = F.linear(x.double().abs(), weight.double().abs())
    ordinary = terms < torch.finfo(torch.float32).max
    for precision in ("fp32x3", "ieee"):
        y = linear_fp32x3(x, weight, precision=precision)
        off = (y.double() - truth).abs()[ordinary] - 2e-6 * terms[ordinary]
        assert float(off.max()) <= 1e-42, f"{precision}: {float(off.max()):.3g} more than allowed"
        assert precision == "ieee" or not y.isnan().any(), "NaN of finite values"


def linear_nan_and_inf_as_torch() -> None:
    inf = float("inf")
    x, weight, _ = (tensor.detach() for tensor in drawn(260, 260, 320))
    weight[4, 7], weight[5, 7] = 1, 0
    x[5, 7], x[6, 7], x[6, 8], x[9, 11], x[140, 3] = inf, inf, -inf, float("nan"), -inf
    weight[8, 7], weight[9, 20], weight[10, 3] = inf, -inf, float("nan")
    wanted = F.linear(x, weight)
    for precision in ("fp32x3", "ieee"):
        y = linear_fp32x3(x, weight, precision=precision)
        assert torch.equal(y.isnan(), wanted.isnan()), f"{precision}: NaN elsewhere"
        assert torch.equal(y[wanted.isinf()], wanted[wanted.isinf()]), f"{precision}: inf elsewhere"


def linear_prepared_weights() -> None:
    x, weight, bias = (tensor.detach() for tensor in drawn(64, 200, 300))
    ready = prepare_weight(weight)
    assert ready.packed is not None or torch.cuda.get_device_capability() != (9, 0)
    assert torch.equal(linear_fp32x3(x, ready, bias), linear_fp32x3(x, weight, bias))
    layer = LinearFP32x3.from_torch(nn.Linear(300, 200, device="cuda"))
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    for _ in range(3):
        close(layer(x), F.linear(x.double(), layer.weight.double(), layer.bias.double()), 4e-6)
        layer(x).square().mean().backward()
        optimizer.step()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad():
        with torch.cuda.graph(graph):
            value = layer(x)
        layer.weight.mul_(2)
        graph.replay()
        close(value, F.linear(x.double(), layer.weight.double(), layer.bias.double()), 4e-6)


def linear_under_torchs_machinery() -> None:
    """opcheck, one graph for every batch, a CUDA graph, a second stream, runs that agree to the bit."""
    x, weight, bias = drawn(32, 48, 256)
    operator = torch.ops.kernelwright.linear_fp32x3_forward.default
    torch.library.opcheck(operator, (x, weight, bias, None, "fp32x3"))
    tensors = of_fused(32, 48, 256)
    whole = (*tensors, None, 3, 1e-5, "fp32x3")
    torch.library.opcheck(torch.ops.kernelwright.linear_group_norm_min_bias_forward.default, whole)
    torch._dynamo.reset()
    compiled = torch.compile(linear_fp32x3, fullgraph=True, dynamic=True)
    for batch in (3, 5, 9):
        rows = torch.randn(batch, 256, device="cuda", requires_grad=True)
        value = compiled(rows, weight, bias)
        close(value, F.linear(rows.double(), weight.double(), bias.double()), 4e-6)
        torch.autograd.grad(value.sum(), (rows, weight, bias))
    x, *others = (tensor.detach() for tensor in of_fused(300, 512, 256))
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    first = fused([x, *others], 16)
    with torch.cuda.graph(graph):
        value = fused([x, *others], 16)
    graph.replay()
    assert torch.equal(value, first), "a replayed graph gives something else"
    x.normal_()
    graph.replay()
    close(value, fused_by_torch([t.double() for t in (x, *others)], 16), 1e-5)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # type: ignore[no-untyped-call]
        x.mul_(3)
        late = fused([x, *others], 16)
    stream.synchronize()
    close(late, fused_by_torch([t.double() for t in (x, *others)], 16), 1e-5)


def linear_fused_values_and_gradients() -> None:
    for width in WIDTHS:
        tensors = of_fused(131, width * 9, 300)
        exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
        truth = fused_by_torch(exact, width)
        grad = torch.randn_like(truth)
        wanted = torch.autograd.grad(truth, exact, grad)
        for precision in ("fp32x3", "ieee"):
            value = fused(tensors, width, precision)
            close(value, truth, 1e-5)
            for mine, theirs in zip(torch.autograd.grad(value, tensors, grad.float()), wanted, strict=True):
                close(mine, theirs, 1e-4)


def linear_fused_gradients_of_many_groups() -> None:
    """Of which a row's gradient has one: products pass over zeros that meet nothing but finite values."""
    tensors = of_fused(1030, 2048, 1100)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    truth = fused_by_torch(exact, 16)
    grad = torch.randn_like(truth)
    wanted = torch.autograd.grad(truth, exact, grad)
    for mine, theirs in zip(
        torch.autograd.grad(fused(tensors, 16), tensors, grad.float()), wanted, strict=True
    ):
        close(mine, theirs, 1e-4)
    with torch.no_grad():
        tensors[0][7, 9] = float("inf")
    found, known = (torch.autograd.grad(of(tensors, 16).sum(), tensors[:2]) for of in (fused, fused_by_torch))
    for ours, native in zip(found, known, strict=True):
        assert torch.equal(ours.isfinite(), native.isfinite()), "not finite elsewhere"


def small() -> None:
    """What compute-sanitizer watches."""
    for precision in ("fp32x3", "ieee"):
        fused(of_fused(130, 144, 270), 16, precision)
        linear_fp32x3(*drawn(130, 140, 270), precision=precision)


CHECKS = (
    linear_values_and_gradients, linear_errors_are_not_above_sgemms,
    linear_errors_are_at_most_twice_sgemms, linear_rows_of_any_scale,
    linear_small_values_beside_large_ones, linear_nan_and_inf_as_torch, linear_prepared_weights,
    linear_fused_values_and_gradients, linear_fused_gradients_of_many_groups, linear_under_torchs_machinery,
)  # fmt: skip
