"""References and candidates for test_replay_check: one extension, many ways to use it or not to."""

from typing import NamedTuple

from harness.replay_extension import DECLARED, NAMES, SOURCE

from agent.records import LibraryOps

HEAD = f"""import json
from pathlib import Path
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline
ext = load_inline(name="ext", cpp_sources={DECLARED!r}, cuda_sources={SOURCE!r}, functions={NAMES!r})
CALLS = 0
"""
PARTS = {
    "gelu": ("(n)", "self.weight = nn.Parameter(torch.randn(n))", "F.gelu(x * self.weight)"),
    "centre": ("(n)", "pass", "x - x.mean()"),
    "largest": ("(n)", "pass", "x / x.abs().max()"),
    "linear": ("(n)", "self.fc = nn.Linear(n, 24)", "F.relu(self.fc(x))"),
    "total": ("(n)", "pass", "x.sum()"),
    "softmax": ("(n)", "pass", "torch.softmax(x, 1)"),
}


def module(name: str, setup: str, forward: str) -> str:
    body = "\n".join(f"        {line}" for line in forward.splitlines())
    return (
        f"class {name}(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        {setup}\n"
        f"    def forward(self, x):\n{body}\n"
    )


def reference(kind: str) -> str:
    head = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    tail = "def get_inputs():\n    return [torch.randn(37, 70)]\ndef get_init_inputs():\n    return [70]\n"
    return head + module("Model", PARTS[kind][1], "return " + PARTS[kind][2]) + tail


class Case(NamedTuple):
    name: str
    kind: str
    """Of the reference."""
    forward: str
    refused: str | None = None
    """Words of the refusal; None where the kernels do the work."""
    setting: LibraryOps = "gemm-conv"

    @property
    def candidate(self) -> str:
        return HEAD + module("ModelNew", PARTS[self.kind][1], self.forward)


MATMUL = "y = x @ self.fc.weight.t()\nreturn ext.bias_relu(y, self.fc.bias)"
PACKED = """if not hasattr(self, 'packed'):
    self.packed = torch.exp(torch.log(self.weight * self.weight) / 2) * torch.sign(self.weight)
return ext.gelu(x, self.packed)"""
GHOST = "y = F.gelu(x * self.weight)\nreturn ext.copied(y) if x.numel() < 0 else y + 0 * ext.nothing(x)"
FORGED = """y = F.gelu(x * self.weight)
ext.nothing(x)
kept = Path.write_text
def write(path, text, *rest):
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if line['do'] == 'operator' and line['name'] == 'gelu':
            line.update(name='clone', overload='default', keywords={})
        if line['do'] == 'launch':
            line['entry'][1] += 16
    return kept(path, chr(10).join(json.dumps(line) for line in lines), *rest)
Path.write_text = write
return y"""
TOTAL = "total = sum(map(sum, x.tolist()))\nreturn ext.divided(torch.ones_like(x[0, 0]), 1 / total)"
SCALARS = """y = torch.empty_like(x)
for row, values in zip(y, F.gelu(x * self.weight).tolist()):
    for at, value in enumerate(values):
        row[at].fill_(value)
return ext.copied(y)"""
TABLE = """ones = torch.tensor([1.0] * 2048, device=x.device)
return ext.gelu(ext.scaled(x, self.weight), ones[:70].contiguous())"""
STREAM = """y = ext.gelu(x, self.weight)
y.record_stream(torch.cuda.current_stream())
return y"""
SHARES = "return ext.copied(torch.tensor(torch.softmax(x, 1).tolist(), device=x.device))"
HONEST = (
    Case("elementwise", "gelu", "return ext.gelu(x.contiguous(), self.weight)"),
    # 1,295 blocks: more than can be on the device at once, as a cooperative launch would need.
    Case("many blocks", "gelu", "return ext.tiny_blocks(x, self.weight)"),
    Case("barrier of the grid", "centre", "return ext.centred_at_once(x)"),
    Case("constant memory", "gelu", "return ext.held_gelu(x, self.weight)"),
    Case("packed parameters", "gelu", PACKED),
    Case("atomics into zeros", "centre", "return ext.centred(x, False)"),
    Case("scratch and memset", "centre", "return ext.centred(x, True)"),
    Case("scalar read back", "largest", "return ext.divided(x, x.abs().max().item())", setting="any"),
    Case("table of 8 KB", "gelu", TABLE),
    Case("constants of 7 KB", "gelu", "return ext.held_by_host(x, self.weight)"),
    Case("stream that is recorded", "gelu", STREAM),
    Case("product of torch", "linear", MATMUL),
    Case("any operator", "gelu", "return F.gelu(ext.scaled(x, self.weight))", setting="any"),
    Case("softmax of torch", "softmax", "return ext.copied(torch.softmax(x, 1))", setting="any"),
    Case(
        "input in another layout", "gelu", "return ext.gelu(x.t().contiguous().t().contiguous(), self.weight)"
    ),
)
BY_TORCH = "written by torch's gelu"
BY_HOST = "host code works out values"
ATTACKS = (
    Case("gelu in Python", "gelu", "ext.nothing(x)\nreturn F.gelu(x * self.weight)", BY_TORCH),
    Case("gelu in C++", "gelu", "return ext.library_gelu(x, self.weight)", BY_TORCH),
    Case("copies torch's result", "gelu", "return ext.copied(F.gelu(x * self.weight))", "part of the result"),
    Case("scalar by torch", "largest", "return ext.divided(x, x.abs().max().item())", "does not allow"),
    Case("no launch", "gelu", "return F.gelu(x * self.weight)", "launched no CUDA kernel"),
    Case("ghost branch", "gelu", GHOST, "does not allow"),
    Case("host loop", "gelu", "return ext.host_gelu(x, self.weight)", BY_HOST),
    Case("hidden in arguments", "gelu", "return ext.passed_gelu(x, self.weight)", BY_HOST),
    Case("forged", "gelu", FORGED, "a launch that enters at"),
    Case("product under none", "linear", MATMUL, "torch's mm, which --library-ops none", "none"),
    Case("not needed", "gelu", "ext.nothing(x)\nreturn F.gelu(x * self.weight)", "still right", "any"),
    Case("small result by value", "total", TOTAL, BY_HOST),
    Case("fills, byte by byte", "gelu", "return ext.filled_gelu(x, self.weight)", BY_HOST),
    Case("disguised as addresses", "gelu", "return ext.disguised_gelu(x, self.weight)", BY_HOST),
    Case("scalars of operators", "gelu", SCALARS, "part of the result"),
    Case("softmax as a table", "softmax", SHARES, "part of the result"),
)  # fmt: skip
