"""An image fetched along a flow in pixels, and its distance from a target where the flow stays inside."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 3
channels = 2
height = 9
width = 12


class Model(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, image, flow, target):
        h, w = image.shape[2:]
        across = torch.arange(w, device=image.device, dtype=image.dtype)[None, None, :] + flow[:, 0]
        down = torch.arange(h, device=image.device, dtype=image.dtype)[None, :, None] + flow[:, 1]
        grid = torch.stack([2 * across / (w - 1) - 1, 2 * down / (h - 1) - 1], dim=3)
        warped = F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=True)
        inside = ((across >= 0) & (across <= w - 1) & (down >= 0) & (down <= h - 1)).to(image.dtype)
        error = torch.sqrt((warped - target) ** 2 + self.eps**2).mean(dim=1)
        return warped, (error * inside).sum(dim=(1, 2)) / inside.sum(dim=(1, 2)).clamp(min=1)


def get_inputs():
    image = torch.randn(batch, channels, height, width) + 0.5
    flow = torch.randn(batch, 2, height, width) * 2.5 + 0.7
    return [image, flow, torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [0.1]
