"""Timed cases of BatchNorm in evaluation, as in image networks."""

import torch
import torch.nn.functional as F

from agent.kernels.batch_norm.operator import batch_norm
from agent.kernels.case import Case, both, made_once
from agent.kernels.group_norm.activation import value


def evaluated() -> list[Case]:
    """Return the end of a ResNet block with its residual, channels first and last, and layers with SiLU."""

    def made(shape: tuple[int, ...], dtype: torch.dtype, act: str, is_last: bool = False) -> Case:
        @made_once
        def statistics(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.zeros_like(x[0, :, 0, 0]), torch.ones_like(x[0, :, 0, 0])

        def laid(x: torch.Tensor) -> torch.Tensor:
            # The case's shape is the order in memory, with channels last; torch's shape has the channels
            # second.
            return x.permute(0, 3, 1, 2) if is_last else x

        def ours(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
            *residual, weight, bias = others
            x, beside = laid(x), laid(residual[0]) if residual else None
            return batch_norm(x, *statistics(x), weight, bias, act=act, residual=beside)

        def native(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
            *residual, weight, bias = others
            x = laid(x)
            y = F.batch_norm(x, *statistics(x), weight, bias)
            return value(y + laid(residual[0]) if residual else y, act)

        channels = shape[-1] if is_last else shape[1]
        setting = act + (", residual" if act == "relu" else "") + (", channels last" if is_last else "")
        return Case(
            "batch_norm", ours, native, shape, ((channels,),) * 2, dtype, setting,
            inputs=2 if act == "relu" else 1, backward_share=3.0 if act == "relu" else 2.0,
        )  # fmt: skip

    first = made((64, 256, 56, 56), torch.float32, "relu")
    others = [
        made((64, 256, 56, 56), torch.float16, "relu"),
        made((64, 56, 56, 256), torch.float16, "relu", is_last=True),
        made((256, 2048, 7, 7), torch.bfloat16, "relu"),
        made((32, 128, 112, 112), torch.float16, "silu"),
        made((1, 64, 56, 56), torch.float16, "relu"),
    ]
    return [*both(first), *others]
