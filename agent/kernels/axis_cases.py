"""The cases of what goes along dimensions: masked softmax."""

import torch

from agent.kernels.case import Case, both
from agent.kernels.masked_softmax.operator import masked_softmax


def attention() -> list[Case]:
    """Scores under a mask of keys, causal, and with a bias that is added: decoders and windows of vision."""

    def made(shape: tuple[int, ...], dtype: torch.dtype, causal: bool) -> Case:
        def padding(x: torch.Tensor) -> torch.Tensor | None:
            named = torch.arange(shape[-1], device=x.device) % 8 != 7
            return None if causal else named.expand(shape[0], 1, 1, -1)

        def ours(x: torch.Tensor) -> torch.Tensor:
            return masked_softmax(x, padding(x), scale=0.125, causal=causal)

        def native(x: torch.Tensor) -> torch.Tensor:
            scores = 0.125 * x
            if causal:
                ahead = torch.ones(shape[-2:], dtype=torch.bool, device=x.device).triu(1)
                return torch.softmax(scores.masked_fill(ahead, -torch.inf), -1)
            mask = padding(x)
            assert mask is not None
            return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)

        # A causal row is read as far as it goes, and written whole.
        read = 0.5 if causal else 1.0
        return Case(
            "masked_softmax", ours, native, shape, (), dtype, "causal" if causal else "mask of keys",
            result_share=read, backward_share=1 + read,
        )  # fmt: skip

    def biased(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return masked_softmax(x, bias, scale=0.25)

    windows = Case(
        "masked_softmax", biased, lambda x, bias: torch.softmax(0.25 * x + bias, -1), (512, 6, 64, 64),
        ((6, 64, 64),), torch.float16, "bias of 6 heads",
    )  # fmt: skip
    large = [
        made((8, 16, 1024, 1024), torch.float32, causal=False),
        made((8, 16, 1024, 1024), torch.bfloat16, causal=False),
        made((4, 32, 2048, 2048), torch.bfloat16, causal=True),
        made((1, 32, 8192, 8192), torch.float16, causal=True),
        made((16, 12, 197, 197), torch.float16, causal=False),
        windows,
    ]
    return [one for case in large for one in both(case)]
