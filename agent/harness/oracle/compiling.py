"""What a process's first compilation takes longest over, done by the import: forked processes have it.

On an H200's machine, with every kernel cached, a GroupNorm took 0.71 s: 0.45 hashing the files of triton and
torch, 0.16 importing what the compiler asks for when it runs. Nothing here asks whether there is a GPU, which
torch would remember. What this torch keeps elsewhere is left to the compilation.
"""

import contextlib
import importlib

_ASKED_FOR = ("torch.distributed.tensor.experimental", "torch._dynamo.repro.after_dynamo")
_HASHES = (
    ("torch._inductor.codecache", "torch_key"),
    ("torch._inductor.runtime.triton_compat", "triton_key"),
)
"""Remembered by the function itself."""

for name in _ASKED_FOR:
    with contextlib.suppress(Exception):
        importlib.import_module(name)
for module, function in _HASHES:
    with contextlib.suppress(Exception):
        getattr(importlib.import_module(module), function)()
