import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Triplet margin loss, Euclidean distance."""

    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_loss(anchor, positive, negative, margin=self.margin)


batch_size = 16384
feature_dim = 1000


def get_inputs():
    anchor = torch.rand(batch_size, feature_dim)
    positive = torch.rand(batch_size, feature_dim)
    negative = torch.rand(batch_size, feature_dim)
    return [anchor, positive, negative]


def get_init_inputs():
    return [1.0]
