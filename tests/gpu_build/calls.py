"""Runs functions of a built extension on CPU tensors: `python -I calls.py GUEST CUDART LIBRARY`.

CUDA's runtime library is loaded first, as torch does where it has a GPU. Prints one JSON list.
"""

import ctypes
import json
import sys

sys.path.insert(0, sys.argv[1])
ctypes.CDLL(sys.argv[2])
import torch  # noqa: E402
from torch_shim import extension  # type: ignore[import-not-found]  # noqa: E402


def main() -> None:
    made = extension.module("built", sys.argv[3])
    x = torch.arange(12.0).reshape(3, 4)
    found = [made.described(x), made.mixed(x, 2.5, [1, 2], None).tolist(), made.mixed(x, 1, [], x).tolist()]
    for wrong in (x.int(), x[0], x.t()):
        try:
            found.append(made.mixed(wrong, 1.0, [], None).tolist())
        except Exception as error:  # noqa: BLE001 - which error it is, is the point
            found.append(f"{type(error).__name__}: {error}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
