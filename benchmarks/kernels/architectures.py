"""Three architectures from their public definitions, with random weights: what `replace_modules` is tried on.

A diffusion UNet of residual blocks (Ho et al. 2020, as latent diffusion has them), a decoder like Llama
(Touvron et al. 2023: RMSNorm, rotary embedding, SwiGLU) and a vision transformer (Dosovitskiy et al. 2020).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class ResBlock(nn.Module):
    """Two convolutions behind GroupNorm and SiLU, with the time's embedding between them."""

    def __init__(self, channels: int, out: int, time: int, groups: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, channels), nn.GroupNorm(groups, out)
        self.conv1, self.conv2 = nn.Conv2d(channels, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time, self.drop, self.act = nn.Linear(time, out), nn.Dropout(0.0), nn.SiLU()
        self.skip = nn.Identity() if channels == out else nn.Conv2d(channels, out, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.conv1(self.act(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        h = self.conv2(self.drop(F.silu(self.norm2(h))))
        y: torch.Tensor = self.skip(x) + h
        return y


class UNet(nn.Module):
    """Down and up again over some widths, each twice the last, with two blocks at each on either way."""

    def __init__(self, width: int, groups: int, time: int, levels: int = 3) -> None:
        super().__init__()
        widths = [width << level for level in range(levels)]
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        now, kept = width, [width]
        for wide in widths:
            for _ in range(2):
                self.down.append(ResBlock(now, wide, time, groups))
                now = wide
                kept.append(now)
        for wide in widths[::-1]:
            for _ in range(2):
                self.up.append(ResBlock(now + kept.pop(), wide, time, groups))
                now = wide
        self.last = nn.Sequential(nn.GroupNorm(groups, now), nn.SiLU(), nn.Conv2d(now, 4, 3, padding=1))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        kept = []
        for place, block in enumerate(self.down):
            h = block(h, time)
            kept.append(h)
            if place % 2:
                h = F.avg_pool2d(h, 2)
        for place, block in enumerate(self.up):
            if place % 2 == 0:
                h = F.interpolate(h, scale_factor=2.0)
            h = block(torch.cat([h, kept.pop()], 1), time)
        y: torch.Tensor = self.last(h)
        return y


class Attention(nn.Module):
    """Of several heads; with `causal` also rotated by their places."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.inner = nn.Linear(width, 3 * width, bias=not causal)
        self.outer = nn.Linear(width, width, bias=not causal)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        q, k, v = self.inner(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.causal:
            q, k = _rotated(q), _rotated(k)
        made = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        y: torch.Tensor = self.outer(made.transpose(1, 2).reshape(n, length, width))
        return y


def _rotated(x: torch.Tensor) -> torch.Tensor:
    length, size = x.shape[-2:]
    speeds = 10000.0 ** (-torch.arange(0, size, 2, device=x.device) / size)
    angles = torch.outer(torch.arange(length, device=x.device), speeds)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, two = x.chunk(2, -1)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)


class SwiGLU(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return y


class Layer(nn.Module):
    """Attention and a feed-forward part, each behind its norm, with the residual stream around them."""

    def __init__(self, norms: tuple[nn.Module, nn.Module], attention: nn.Module, forth: nn.Module) -> None:
        super().__init__()
        self.norm1, self.norm2 = norms
        self.attention, self.forth = attention, forth

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.attention(self.norm1(x))
        y: torch.Tensor = h + self.forth(self.norm2(h))
        return y


class Decoder(nn.Module):
    """Tokens to logits."""

    def __init__(self, tokens: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(
            Layer(
                (nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)),
                Attention(width, heads, causal=True), SwiGLU(width, 8 * width // 3 // 8 * 8),
            )
            for _ in range(depth)
        )  # fmt: skip
        self.norm, self.head = nn.RMSNorm(width, 1e-5), nn.Linear(width, tokens, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        h = self.embedding(tokens)
        for layer in self.layers:
            h = layer(h)
        y: torch.Tensor = self.head(self.norm(h))
        return y


class ViT(nn.Module):
    """Patches to classes."""

    def __init__(self, size: int, patch: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.layers = nn.Sequential(
            *(
                Layer(
                    (nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)),
                    Attention(width, heads, causal=False),
                    nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)),
                )
                for _ in range(depth)
            )
        )
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.patches(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.first.expand(h.shape[0], -1, -1), h], 1) + self.places
        y: torch.Tensor = self.head(self.norm(self.layers(h))[:, 0])
        return y


@dataclass(frozen=True)
class Architecture:
    """A model of a size that a GPU is busy with, one that a test affords, and inputs for both."""

    name: str
    model: Callable[[bool], nn.Module]
    """Of the large size, or of the small one."""
    inputs: Callable[[bool], tuple[torch.Tensor, ...]]


ARCHITECTURES = (
    Architecture(
        "unet",
        lambda large: UNet(320, 32, 1280) if large else UNet(8, 4, 16),
        lambda large: (
            (torch.randn(4, 4, 64, 64), torch.randn(4, 1280)) if large
            else (torch.randn(2, 4, 16, 8), torch.randn(2, 16))
        ),
    ),
    Architecture(
        "decoder",
        lambda large: Decoder(32000, 2048, 16, 16) if large else Decoder(50, 32, 2, 4),
        lambda large: (torch.randint(32000, (4, 1024)) if large else torch.randint(50, (2, 9)),),
    ),
    Architecture(
        "vit",
        lambda large: ViT(224, 16, 768, 12, 12) if large else ViT(16, 8, 24, 2, 3),
        lambda large: (torch.randn(64, 3, 224, 224) if large else torch.randn(2, 3, 16, 16),),
    ),
)  # fmt: skip
