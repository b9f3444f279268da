"""The fused convolution on a GPU: every path it may take, against torch in float64."""

import torch
import torch.nn.functional as F

from agent.kernels import (
    conv_group_norm_tanh_hardswish_residual_logsumexp as conv_logsumexp,
)

from .kernel_calls import close

SHAPES = [
    (5, 8, 64, 128, 128, 16), (300, 8, 64, 11, 37, 1), (1, 8, 64, 20, 517, 64), (5, 8, 64, 3, 3, 4),
    (2, 3, 6, 40, 41, 3), (2, 11, 130, 9, 70, 13),
]  # fmt: skip
"""n, input channels, channels, height, width, groups; only 8 to 64 channels may go to the tensor cores, the
first two do."""


def drawn(shape: tuple[int, ...]) -> list[torch.Tensor]:
    """x, weight, bias, gamma and beta, with gradients."""
    torch.manual_seed(0)
    n, inputs, channels, height, width, _ = shape
    sizes = [(n, inputs, height, width), (channels, inputs, 3, 3), *[(channels,)] * 3]
    return [torch.randn(size, device="cuda", requires_grad=True) for size in sizes]


def native(groups: int, *tensors: torch.Tensor) -> torch.Tensor:
    """The chain in torch's operators, in the tensors' own dtype."""
    x, weight, bias, gamma, beta = tensors
    c = F.conv2d(x, weight, bias)
    return torch.logsumexp(c + F.hardswish(torch.tanh(F.group_norm(c, groups, gamma, beta))), 1, keepdim=True)


def ours(groups: int, *tensors: torch.Tensor) -> torch.Tensor:
    """The same by the shipped kernel."""
    x, weight, bias, gamma, beta = tensors
    return conv_logsumexp(x, weight, bias, groups, gamma, beta)


def convolution_and_all_that_follows() -> None:
    """Values, gradients, equal bits of two runs, NaN in its own image, and a captured graph."""
    torch.backends.cudnn.allow_tf32 = False
    for shape in SHAPES:
        tensors, groups = drawn(shape), shape[-1]
        exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
        value, truth = ours(groups, *tensors), native(groups, *exact)
        close(value, truth, 1e-6)
        assert torch.equal(value, ours(groups, *tensors))
        grad = torch.randn_like(value)
        wanted = torch.autograd.grad(truth, exact, grad.double())
        for mine, theirs in zip(torch.autograd.grad(value, tensors, grad), wanted, strict=True):
            close(mine, theirs, 1e-5)
        with torch.no_grad():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                captured = ours(groups, *tensors)
            tensors[0][0, 0, 0, 0] = float("nan")
            graph.replay()
            found = captured.isnan().flatten(1)
        assert bool(found[0].all())
        assert not bool(found[1:].any())
