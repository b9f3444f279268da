"""Loss of connectionist temporal classification for each label of the sample; the last class is the blank."""

import torch
import torch.nn.functional as F
from torch import nn

steps = 15
batch = 5
classes = 8
longest = 5


class Model(nn.Module):
    def __init__(self, blank):
        super().__init__()
        self.blank = blank

    def forward(self, logits, targets, frames, lengths):
        scores = torch.log_softmax(logits, dim=-1)
        loss = F.ctc_loss(scores, targets, frames, lengths, blank=self.blank, reduction="none")
        return loss / lengths


def get_inputs():
    targets = torch.randint(0, classes - 1, (batch, longest))
    targets[:, 1] = targets[:, 0]
    frames = torch.tensor([15, 12, 14, 9, 15])
    lengths = torch.tensor([5, 3, 4, 2, 4])
    return [torch.randn(steps, batch, classes) * 1.5, targets, frames, lengths]


def get_init_inputs():
    return [classes - 1]
