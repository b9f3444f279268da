"""Tables of the headers that declare C++ or CUDA names, and of the imports that bind Python names.

Only names that candidates use and whose header is certain are listed; for other names the functions return
None.
"""

import re

_CPP = {
    "ATen/cuda/CUDAContext."
    "h": r"at::cuda|getCurrentCUDAStream|getCurrentDeviceProperties|getDefaultCUDAStream",
    "c10/cuda/CUDAException.h": r"C10_CUDA_(?:KERNEL_LAUNCH_)?CHECK",
    "ATen/cuda/Exceptions.h": r"AT_CUDA_CHECK",
    "c10/cuda/CUDAGuard.h": r"(?:Optional)?CUDA(?:Stream|Device)?Guard|OptionalCUDAGuard",
    "ATen/cuda/detail/KernelUtils.h": r"CUDA_KERNEL_LOOP(?:_TYPE)?",
    "ATen/cuda/Atomic.cuh": r"gpuAtomicAdd\w*",
    "cuda_fp16.h": r"half2?|__half\w*|__u?short_as_half|__h(?:add|mul|sub|fma|max|min|lt|gt)2?"
    r"|__float2half\w*",
    "cuda_bf16.h": r"_*nv_bfloat162?|__(?:float2bfloat16|bfloat162float)\w*",
    "cuda_fp8.h": r"__nv_fp8\w*",
    "mma.h": r"wmma|nvcuda",
    "cooperative_groups.h": r"cooperative_groups|this_thread_block|tiled_partition|thread_block_tile",
    "cub/cub.cuh": r"cub|Block(?:Reduce|Scan|Load|Store|RadixSort)|Warp(?:Reduce|Scan)",
    "curand_kernel.h": r"curand\w*",
    "cublas_v2.h": r"cublas\w*",
    "math_constants.h": r"CUDART_\w+",
    "cfloat": r"(?:FLT|DBL|LDBL)_(?:MAX|MIN|EPSILON)",
    "climits": r"(?:U?INT|U?LONG|U?CHAR|U?SHRT|LLONG)_(?:MAX|MIN)",
    "cstdint": r"u?int(?:8|16|32|64)_t|U?INT(?:8|16|32|64)_(?:MAX|MIN)|uintptr_t",
    "cstring": r"memcpy|memset",
    "cstdio": r"printf",
    "cmath": r"INFINITY|NAN|M_PI|M_SQRT\w+|M_LOG\w+|isnan|isinf",
    "limits": r"numeric_limits",
    "vector": r"vector",
    "algorithm": r"sort|clamp|max_element|min_element",
    "tuple": r"tuple|make_tuple",
    "optional": r"optional|nullopt",
    "map": r"map",
    "unordered_map": r"unordered_map",
    "type_traits": r"is_same|is_same_v|enable_if|enable_if_t|conditional_t",
    "torch/extension.h": r"PYBIND11_MODULE|pybind11|TORCH_EXTENSION_NAME",
    "torch/types.h": r"torch|TORCH_CHECK|AT_DISPATCH_\w+",
}  # fmt: skip
_INCLUDES = [(re.compile(pattern), header) for header, pattern in _CPP.items()]
_PYTHON = {
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "math": "import math",
    "os": "import os",
    "functools": "import functools",
    "itertools": "import itertools",
    "textwrap": "import textwrap",
    "load_inline": "from torch.utils.cpp_extension import load_inline",
    "cpp_extension": "from torch.utils import cpp_extension",
    "Tensor": "from torch import Tensor",
    "Parameter": "from torch.nn import Parameter",
    "Optional": "from typing import Optional",
    "List": "from typing import List",
    "Tuple": "from typing import Tuple",
}
_ASKED = re.compile(r"add `#include <([^>`]+)>`")


def include_for(name: str) -> str | None:
    """Return the header of a C++ name, as `math_constants.h`; the name may be qualified, as `at::cuda`."""
    for pattern, header in _INCLUDES:
        if pattern.fullmatch(name) or pattern.fullmatch(name.split("::")[-1]):
            return header
    return None


def import_for(name: str) -> str | None:
    """Return the statement that binds a Python name, such as `import torch.nn as nn`."""
    return _PYTHON.get(name)


def to_add(header: str) -> str:
    """Return the fix for a message, in the words that `asked` parses."""
    return f"add `#include <{header}>`"


def asked(message: str) -> str | None:
    """Return the header that a message asks to include, or None."""
    found = _ASKED.search(message)
    return found[1] if found else None
