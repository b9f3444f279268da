import torch
import torch.nn as nn


class Model(nn.Module):
    """Counts per class label over a label map, plus the number of labels that fall outside."""

    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes

    def forward(self, labels):
        flat = labels.flatten()
        valid = (flat >= 0) & (flat < self.num_classes)
        counts = torch.bincount(flat[valid], minlength=self.num_classes)
        return counts, (~valid).sum()


def get_inputs():
    num_classes = 150
    return [torch.randint(-1, num_classes, (32, 640, 640), dtype=torch.int32)]


def get_init_inputs():
    return [150]
