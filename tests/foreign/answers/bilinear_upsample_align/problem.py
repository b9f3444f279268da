import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Bilinear resize to a fixed output size."""

    def __init__(self, out_h, out_w, align_corners=False):
        super().__init__()
        self.size = (out_h, out_w)
        self.align_corners = align_corners

    def forward(self, x):
        return F.interpolate(x, size=self.size, mode="bilinear", align_corners=self.align_corners)


B, C, H, W = 8, 64, 60, 80


def get_inputs():
    return [torch.rand(B, C, H, W)]


def get_init_inputs():
    return [240, 320]
