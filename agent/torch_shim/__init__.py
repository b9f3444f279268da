"""Support for CUDA on the CPU in a candidate's process: torch's CUDA interface, load_inline and the runtime.

This package is standalone: it imports the standard library and torch, and only its parent directory has to
be importable. A callback compiles extensions. The package is not a security boundary, because it runs in the
candidate's process. Its functions are defined in `face`, which is imported with torch at first use.
Definitions shared by C++ and Python (`c_abi`, `finding_kinds`) can be imported without torch.
"""

import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
    # Importing a submodule calls this function first, and `face` imports all submodules.
    if name.startswith("__") or importlib.util.find_spec(f".{name}", __name__) is not None:
        raise AttributeError(name)
    return getattr(importlib.import_module(".face", __name__), name)
