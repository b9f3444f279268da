"""What a candidate's process needs to run CUDA on the CPU: torch's CUDA face, load_inline, the runtime.

Standalone: it imports the standard library and torch, by relative imports, so that its parent
directory alone has to be importable. It compiles nothing (a callback does) and protects nothing: it
runs in the process of the code that it serves. Its functions are those of `face`, which is imported with
torch when one is first asked for: what C++ and Python share (`c_abi`, `finding_kinds`) is read without torch.
"""

import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
    # The import of a module of this package asks for it here first, and `face` imports them all.
    if name.startswith("__") or importlib.util.find_spec(f".{name}", __name__) is not None:
        raise AttributeError(name)
    return getattr(importlib.import_module(".face", __name__), name)
