"""References of one line, and what is composed for them."""

import re

from agent.compose.composing import composed

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nBATCH = 6\n"
TAIL = """
def get_inputs():
    return [torch.randn(BATCH, 8, 10)]
def get_init_inputs():
    return []
"""


def reference(forward: str, init: str = "pass") -> str:
    return f"""{HEAD}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
{TAIL}"""


def made(forward: str, init: str = "pass") -> str:
    source = reference(forward, init)
    return composed([source, source.replace("BATCH = 6", "BATCH = 2")], "sample")


def launches(text: str) -> list[str]:
    return re.findall(r"stages\.(fused_\w+)\(", text)
