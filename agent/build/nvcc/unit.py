"""Translation unit for nvcc: cuda_sources as the candidate wrote them, with the candidate's line numbers."""

import re

from agent.build.build_request import BuildRequest
from agent.build.cuda_text import with_named_namespaces
from agent.build.flags import effective
from agent.build.source_map import locate, with_directives

# Standard headers that are slow in NVIDIA's front end, with the names of std that need them. Torch's own
# headers include all of them.
_STANDARD = {
    "string": "string|string_view|to_string|sto[a-z]+|getline",
    "sstream": r"\w*stringstream",
    "iostream": "cout|cerr|clog|endl|ostream|istream|flush",
    "iomanip": "setprecision|setw|fixed|hex",
    "map": "map|multimap",
    "set": "set|multiset",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "deque": "deque",
    "functional": "function|bind|hash|plus|multiplies|minus|less|greater|ref|cref|invoke",
    "memory": r"\w+_ptr|make_unique|make_shared|allocator|addressof",
    "mutex": r"\w*mutex|\w+_lock|lock_guard|call_once|once_flag",
    "numeric": r"accumulate|iota|gcd|lcm|partial_sum|inner_product|reduce",
    "stdexcept": r"runtime_error|logic_error|\w+_argument|out_of_range|length_error",
    "complex": "complex",
    "chrono": "chrono",
    "atomic": r"atomic\w*|memory_order\w*",
    "random": "mt19937|random_device|[a-z_]+_distribution",
}
_NAME = re.compile(r"\bstd\s*::\s*(\w+)")
_SIXTEEN_BIT = re.compile(r"half|bf(?:loat)?16|float16|REDUCED", re.IGNORECASE)
_FOR_90A = re.compile(r"\b(?:sm|compute)_90a\b|\b9\.0a\b")
# Flags that change what nvcc accepts or a kernel's resources; the language standard is torch's.
_ACCEPTED = re.compile(
    r"--?use_fast_math|--?(?:expt-)?extended-lambda|--?restrict|--?maxrregcount=\d+"
    r"|--?(?:fmad|ftz|prec-div|prec-sqrt)=(?:true|false)|-Xptxas=-O[0-3]|-Xptxas=-dlcm=c[a-z]"
)
# torch.utils.cpp_extension passes these to every extension.
OF_TORCH = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)


def text(request: BuildRequest, *, named: bool = False) -> str:
    """Return the text of device.cu. With `named`, unnamed namespaces get a name (`with_named_namespaces`)."""
    source = with_named_namespaces(request.cuda) if named else request.cuda
    headers = ["#define KW_SIXTEEN_BIT_USED 1"] if _SIXTEEN_BIT.search(source) else []
    headers += [f"#include <{header}>" for header in _standard_headers(source)]
    # Every unit includes the slim torch headers, even if the source does not include torch.
    headers += ["#include <cuda.h>", '#include "kw/host.h"']
    return (
        "\n".join(
            [
                *headers,
                with_directives(source, locate(request.cuda, request.candidate_source), "cuda_sources"),
            ]
        )
        + "\n"
    )


def _standard_headers(source: str) -> list[str]:
    if re.search(r"\busing\s+namespace\s+std\b", source):
        return list(_STANDARD)
    names = set(_NAME.findall(source))
    return [header for header, words in _STANDARD.items() if any(re.fullmatch(words, name) for name in names)]


def architecture(request: BuildRequest) -> str:
    """Return `sm_90`, the GPU that the project judges on, or `sm_90a` if the candidate asks for it."""
    words = " ".join((*request.extra_cuda_cflags, request.candidate_source))
    return "sm_90a" if _FOR_90A.search(words) else "sm_90"


def flags(request: BuildRequest) -> list[str]:
    """Return the flags that torch passes to nvcc, then those of extra_cuda_cflags that affect the check."""
    words = [word for flag in request.extra_cuda_cflags for word in flag.split()]
    # A flag and its value may be two words.
    joined = [f"{first}={second}" for first, second in zip(words, words[1:], strict=False)]
    chosen = [word for word in (*words, *joined) if _ACCEPTED.fullmatch(word)]
    return [*OF_TORCH, *dict.fromkeys(chosen), *effective(request.extra_cuda_cflags)[0]]
