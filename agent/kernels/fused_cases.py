"""Timed cases of norms of a sum, gates, rotary embeddings, losses and embeddings: parts of transformers."""

from collections.abc import Callable
from math import prod

import torch
import torch.nn.functional as F

from agent.kernels.add_layer_norm.operator import add_layer_norm
from agent.kernels.add_rms_norm.operator import add_rms_norm
from agent.kernels.case import Case, both, made_once
from agent.kernels.cross_entropy.operator import cross_entropy
from agent.kernels.embedding_norm.operator import embedding_layer_norm, embedding_rms_norm
from agent.kernels.gate_product.operator import gate_product, gate_product_halves
from agent.kernels.linear_cross_entropy.operator import linear_cross_entropy
from agent.kernels.rotary.operator import in_torch, rotary

Values = tuple[torch.Tensor, torch.Tensor]


def of_rms_norm(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    """Return a sum and its RMSNorm over the last dimension."""

    def ours(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Values:
        return add_rms_norm(x, residual, weight.shape, weight, 1e-6)

    def native(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Values:
        added = x + residual
        return F.rms_norm(added, weight.shape, weight, 1e-6), added

    return Case("add_rms_norm", ours, native, shape, (shape[-1:],), dtype, result_share=2.0, inputs=2)


def rms_norms() -> list[Case]:
    """Return the float32 shape at which RMSNorm alone is timed, and bfloat16 shapes of decoders."""
    sizes = ((1, 4096), (4096, 4096), (8192, 8192))
    made = [of_rms_norm((8, 2048, 4096), torch.float32), *(of_rms_norm(one, torch.bfloat16) for one in sizes)]
    return [one for case in made for one in both(case)]


def of_layer_norm(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    """Return a sum and its LayerNorm over the last dimension."""

    def ours(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Values:
        return add_layer_norm(x, residual, weight.shape, weight, bias)

    def native(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Values:
        added = x + residual
        return F.layer_norm(added, weight.shape, weight, bias), added

    sizes = (shape[-1:],) * 2
    return Case("add_layer_norm", ours, native, shape, sizes, dtype, result_share=2.0, inputs=2)


def layer_norms() -> list[Case]:
    """Return the float32 shape at which LayerNorm alone is timed, and float16 shapes of ViTs."""
    sizes = ((1, 197, 768), (64, 197, 768), (32, 197, 1280))
    made = [of_layer_norm((16, 2048, 4096), torch.float32), *(of_layer_norm(s, torch.float16) for s in sizes)]
    return [one for case in made for one in both(case)]


def of_halves(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    """Return SwiGLU of the halves of the last dimension."""

    def native(x: torch.Tensor) -> torch.Tensor:
        gate, value = x.chunk(2, -1)
        return F.silu(gate) * value

    setting = "halves, silu"
    return Case("gate_product", gate_product_halves, native, shape, (), dtype, setting, result_share=0.5)


def of_two(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    """Return SwiGLU of two tensors."""

    def native(gate: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return F.silu(gate) * value

    return Case(
        "gate_product",
        gate_product,
        native,
        shape,
        (),
        dtype,
        "two tensors, silu",
        inputs=2,
        backward_share=4.0,
    )


def of_geglu(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    """Return GeGLU of the halves of the last dimension, the second of which is the gate."""

    def geglu(x: torch.Tensor) -> torch.Tensor:
        return gate_product_halves(x, "gelu", gate_first=False)

    def native_geglu(x: torch.Tensor) -> torch.Tensor:
        value, gate = x.chunk(2, -1)
        return value * F.gelu(gate)

    setting = "halves, gelu, gate second"
    return Case("gate_product", geglu, native_geglu, shape, (), dtype, setting, result_share=0.5)


def gates() -> list[Case]:
    """Return SwiGLU of halves and of two tensors, and GeGLU of halves with the gate second."""
    large = [
        of_halves((8192, 22016), torch.float32), of_halves((8192, 22016), torch.bfloat16),
        of_two((4096, 14336), torch.bfloat16), of_geglu((2, 4096, 2560), torch.float16),
    ]  # fmt: skip
    return [one for case in large for one in both(case)]


def of_rotary(shape: tuple[int, ...], dim: int, dtype: torch.dtype, interleaved: bool = False) -> Case:
    """Return rotary embedding by tables in float32, with the positions in dimension `dim`."""

    held: list[Values] = []

    def tables(device: torch.device) -> Values:
        if not held:
            angles = torch.arange(shape[dim] * shape[-1] // 2, device=device, dtype=torch.float32)
            angles = angles.view(shape[dim], -1)
            held.append((angles.cos(), angles.sin()))
        return held[0]

    def ours(x: torch.Tensor) -> torch.Tensor:
        return rotary(x, *tables(x.device), dim=dim, interleaved=interleaved)

    def native(x: torch.Tensor) -> torch.Tensor:
        return in_torch(x, *tables(x.device), dim, interleaved)

    setting = ("side by side" if interleaved else "half a row apart") + f", positions at {dim}"
    return Case("rotary", ours, native, shape, (), dtype, setting, backward_share=1.0)


def turns() -> list[Case]:
    """Return queries of a decoder, with the positions in the dimension before the heads and behind them."""
    large = [
        of_rotary((8, 32, 2048, 128), -2, torch.float32),
        of_rotary((4, 4096, 32, 128), -3, torch.bfloat16),
        of_rotary((4, 4096, 32, 128), -3, torch.bfloat16, interleaved=True),
        of_rotary((1, 32, 1, 128), -2, torch.bfloat16),
    ]
    return [one for case in large for one in both(case)]


def targets_of(shape: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that maps x to a target class for each of its rows, of `shape[1]` classes."""

    @made_once
    def targets(x: torch.Tensor) -> torch.Tensor:
        return torch.arange(x.shape[0], device=x.device) * 7919 % shape[1]

    return targets


def of_loss(shape: tuple[int, ...], dtype: torch.dtype) -> Case:
    """Return the cross entropy of each row, with label smoothing."""
    targets = targets_of(shape)

    def ours(x: torch.Tensor) -> torch.Tensor:
        return cross_entropy(x, targets(x), label_smoothing=0.1, reduction="none")

    def native(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, targets(x), label_smoothing=0.1, reduction="none")

    return Case("cross_entropy", ours, native, shape, (), dtype, result_share=0.0)


def losses() -> list[Case]:
    """Return losses over vocabularies, without a reduction over the rows."""
    sizes = (((4096, 32000), torch.float32), ((4096, 128256), torch.bfloat16), ((8, 50257), torch.float16))
    return [one for size in sizes for one in both(of_loss(*size))]


def vocabularies() -> list[Case]:
    """Return a linear layer fused with its loss: logits that fit one chunk, and a large vocabulary."""

    def made(rows: int, features: int, classes: int) -> Case:
        targets = targets_of((rows, classes))

        def ours(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return linear_cross_entropy(x, weight, targets(x))

        def native(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            logits = F.linear(x, weight)
            wide = logits if logits.dtype == torch.float64 else logits.float()
            return F.cross_entropy(wide, targets(x))

        return Case(
            "linear_cross_entropy", ours, native, (rows, features), ((classes, features),), torch.bfloat16,
            f"{classes} classes", result_share=0.0, macs=rows * features * classes,
        )  # fmt: skip

    return [one for sizes in ((4096, 2048, 32000), (8192, 4096, 128256)) for one in both(made(*sizes))]


def embeddings() -> list[Case]:
    """Return the first layer of an encoder, with positions, and of a decoder."""

    def numbers(*shape: int) -> Callable[[torch.Tensor], torch.Tensor]:
        @made_once
        def drawn(table: torch.Tensor) -> torch.Tensor:
            return (torch.arange(prod(shape), device=table.device) * 7919 % len(table)).view(shape)

        return drawn

    words_of, tokens_of = numbers(32, 512), numbers(4, 4096)

    def encoder(
        table: torch.Tensor, positions: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> Values:
        return embedding_layer_norm(words_of(table), table, weight, bias, positions=positions)

    def native_encoder(
        table: torch.Tensor, positions: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> Values:
        embedded = F.embedding(words_of(table), table) + positions
        return F.layer_norm(embedded, weight.shape, weight, bias), embedded

    def decoder(table: torch.Tensor, weight: torch.Tensor) -> Values:
        return embedding_rms_norm(tokens_of(table), table, weight, 1e-6)

    def native_decoder(table: torch.Tensor, weight: torch.Tensor) -> Values:
        embedded = F.embedding(tokens_of(table), table)
        return F.rms_norm(embedded, weight.shape, weight, 1e-6), embedded

    # Only the rows of the table that the indices name are read.
    words = Case(
        "embedding_norm", encoder, native_encoder, (30522, 768), ((512, 768), (768,), (768,)), torch.float16,
        "32 by 512 numbers, positions", result_share=3 * 32 * 512 / 30522, inputs=0, sample=None,
    )  # fmt: skip
    tokens = Case(
        "embedding_norm", decoder, native_decoder, (32000, 4096), ((4096,),), torch.bfloat16,
        "4 by 4096 numbers", result_share=3 * 4 * 4096 / 32000, inputs=0, sample=None,
    )  # fmt: skip
    return [*both(words), *both(tokens)]
