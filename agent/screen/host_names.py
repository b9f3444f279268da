"""Names that host code may use, and names that it may not, from `host_names.toml`, and their patterns.

The lists hold what launching kernels and allocating outputs needs, found in right answers. A name on none of
them is refused.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LISTS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _names(key: str) -> frozenset[str]:
    return frozenset(_LISTS[key].split())


def _kinds(key: str) -> Mapping[str, str]:
    return {name: kind for kind, names in _LISTS[key].items() for name in names.split()}


LANGUAGE = _names("language")
C_LIBRARY = _names("c_library")
CUDA = _names("cuda")
TORCH_MACROS = _names("torch_macros")
FACTORIES = _names("factories")
TORCH = _names("torch")
TORCH_SCOPES = _names("torch_scopes")
OPERATOR_SCOPES = _names("operator_scopes")
OPERATORS = _names("operators")
PLAIN_METHODS = _names("plain_methods")
METHODS = PLAIN_METHODS | _names("methods")
PYBIND = _names("pybind")
STD = _names("std")
HEADER_LIBRARIES = _names("header_libraries")
OUTSIDE = _names("outside")
ATTRIBUTES = _names("attributes")
LOADING_ATTRIBUTES = _names("loading_attributes")
WORDS_OF_THE_LANGUAGE = _names("words_of_the_language")
DISPATCHED = _names("dispatched")
REFUSED = _kinds("refused")
"""Kinds of finding of the names that do what a candidate may not."""
REFUSED_METHODS = _kinds("refused_methods")
_C_KINDS = ("hidden-library-call", "process-control", "file-access", "environment-write", "introspection")
LIBC = frozenset(name for name, kind in REFUSED.items() if kind in _C_KINDS) - _names("not_in_c")
"""Functions of C's library among the refused names."""

CUDA_WORDS = re.compile(
    r"""CU_(?:TENSOR_MAP|GET_PROC|DEVICE_ATTRIBUTE|STREAM|EVENT|LAUNCH)_?\w*
    | CUDA_(?:SUCCESS|ERROR_\w+|R_\w+|[CR]_\w+) | __CUDA\w* | cudaTextureType\w+
    | (?:u?char|u?short|u?int|u?long|u?longlong|float|double)[1-4](?:_16a|_32a)?
    | make_(?:u?char|u?short|u?int|u?long|u?longlong|float|double|half|bfloat16)[1-4](?:_16a|_32a)?
    | (?:make_)?cu(?:Float|Double)?Complex
    | cu(?:C(?:add|sub|mul|div|real|imag|abs|fma)|Conj|Cabs|Creal|Cimag|Conj)f?
    | __(?:half|nv|float|double|int|uint|ll|ull|bfloat|f|d|h|u|fp8|low|high|lows|highs|halves)\w*2\w+
    | __(?:half|half2|half_raw|half2_raw|nv_bfloat16\w*|nv_bfloat162|nv_fp[468]\w*)
    | __(?:f|d|h|u|s)(?:add|sub|mul|div|fma|max|min|rcp|sqrt|rsqrt|abs|neg|exp|log|sin|cos|tan)\w*
    | __(?:f|d|h|u|s)(?:eq|ne|lt|le|gt|ge|isnan|isinf)\w*
    | __(?:expf|exp10f|logf|log2f|log10f|powf|sinf|cosf|tanf|sincosf|tanhf)
    | __(?:fdividef|saturatef|frcp_rn|frsqrt_rn)
    | __(?:ldg|ldca|ldcg|ldcs|ldcv|ldlu|stcg|stcs|stwb|stwt)
    | __(?:shfl\w*|ballot\w*|any\w*|all\w*|match\w*|activemask|sync(?:threads|warp)\w*)
    | __(?:threadfence\w*|nanosleep|trap|brkpt|popc\w*|clz\w*|ffs\w*|brev\w*|byte_perm|dp[24]a)
    | __(?:vadd\w*|vsub\w*|vmax\w*|vmin\w*|reduce_\w+_sync|cvta_\w+|isShared|isGlobal|pipeline_\w+)
    | __(?:funnelshift_\w+|mul24|umul24|mulhi|umulhi|sad|usad|fns)
    | __builtin_(?:expect|clz|clzl|clzll|ctz|ctzl|ctzll|popcount|popcountl|popcountll|unreachable|assume)
    | __builtin_(?:bswap\d+|nanf?|inff?) | __NV_\w+
    | NV_(?:IF|IF_ELSE)_TARGET | NV_(?:IS|PROVIDES|ANY|ALL)\w*""",
    re.VERBOSE,
)
"""Vectors, intrinsics, constants and macros of CUDA."""
RUNTIME = re.compile(r"cuda[A-Z]\w*")
"""Names of CUDA's runtime, all allowed but those of `REFUSED`."""
DRIVER_ENTRIES = re.compile(r'"cu(?:TensorMap\w+|GetErrorString|GetErrorName)"')
"""Functions of the driver that `cudaGetDriverEntryPoint` may look up."""
DISPATCHES = re.compile(r"AT_DISPATCH_\w+|THO_DISPATCH_\w+")
"""Macros that choose a type for a lambda."""
STD_TRAITS = re.compile(
    r"(?:is|has|add|make|enable|conditional|common|decay|integral|bool|true|false|void|underlying|result)_\w+"
    r"|(?:invoke|index|integer|rank|extent|conjunction|disjunction|negation|alignment)_\w+"
    r"|remove_(?:cv|const|volatile|reference|cvref|pointer|extent|all_extents)(?:_t)?"
    r"|decay|conditional|extent|rank|conjunction|disjunction|negation"
)
"""Traits of types and sequences of indices, which do nothing at run time."""
PYTHON = re.compile(r"_?Py[A-Z]\w*|PY[A-Z]\w*|_Py_\w+|Py_\w+|THP\w*")
"""Python's C interface, and torch's classes for it."""
LIBRARIES = re.compile(
    r"(?:cublas|cublasLt|cublasXt|cudnn|cufft|cusolver\w*|cusparse\w*|curand|cutensor|nccl|nvrtc|nvJitLink)[A-Z]\w*"
    r"|(?:nppi?|cudss|cufile|cupti|nvml|nvtx)[A-Z]\w*"
    r"|(?:CUBLAS|CUDNN|CUFFT|CUSOLVER|CUSPARSE|CURAND|NCCL|NVRTC|CUPTI)_\w+"
    r"|getCurrentCUDA(?:Blas|BlasLt|Sparse|Solver\w*)Handle"
)
"""CUDA's compiled libraries."""
PRODUCT_LIBRARIES = re.compile(r"(?i:cublas|cudnn)\w*|getCurrentCUDABlas\w*Handle")
"""Libraries that compute matrix products and convolutions."""
