"""Slowest parts of a process's first compilation, done on import so that forked processes inherit them.

On a machine with an H200 and every kernel cached, compiling a GroupNorm took 0.71 s. Hashing the files of
triton and torch took 0.45 s of that, and imports by the running compiler 0.16 s. Nothing in this module asks
whether there is a GPU, because torch would remember the answer. Parts that a version of torch lacks are
skipped here and done by the first compilation.
"""

import contextlib
import importlib

_ASKED_FOR = ("torch.distributed.tensor.experimental", "torch._dynamo.repro.after_dynamo")
_HASHES = (
    ("torch._inductor.codecache", "torch_key"),
    ("torch._inductor.runtime.triton_compat", "triton_key"),
)
"""Slow functions, by module and name, that cache their own result."""

for name in _ASKED_FOR:
    with contextlib.suppress(Exception):
        importlib.import_module(name)
for module, function in _HASHES:
    with contextlib.suppress(Exception):
        getattr(importlib.import_module(module), function)()
