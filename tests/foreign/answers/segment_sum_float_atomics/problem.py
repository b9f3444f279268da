import torch
import torch.nn as nn


class Model(nn.Module):
    """Message aggregation: sum the edge features at their target node."""

    def __init__(self, num_nodes: int):
        super().__init__()
        self.num_nodes = num_nodes

    def forward(self, edge_feat, target):
        out = torch.zeros(self.num_nodes, edge_feat.size(1), dtype=edge_feat.dtype, device=edge_feat.device)
        return out.index_add_(0, target, edge_feat)


num_nodes = 50000
num_edges = 400000
feat = 64


def get_inputs():
    return [torch.randn(num_edges, feat), torch.randint(0, num_nodes, (num_edges,))]


def get_init_inputs():
    return [num_nodes]
