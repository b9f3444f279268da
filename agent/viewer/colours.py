"""Syntax highlighting of Python with CUDA C++ inside its strings: keywords, comments, strings, ...

For display only. The text comes from a candidate, so every pattern runs in time linear in its length. The
lexers of a general highlighter do not promise that: they can take minutes for some 60 kB.
"""

import keyword
import re
from collections.abc import Iterator

_STRING = (
    r"(?P<st>[rRbBfFuU]{0,2}(?:"
    r'"""(?:[^\\]|\\[\s\S])*?(?:"""|\Z)' r"|'''(?:[^\\]|\\[\s\S])*?(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\[\s\S])*"?' r"|'(?:[^'\\\n]|\\[\s\S])*'?))"
)  # fmt: skip
_NUMBER = r"(?P<nu>\d[\w.]*)"
_WORD = r"(?P<word>[^\W\d]\w*)"
_PYTHON = re.compile(rf"(?P<co>#[^\n]*)|{_STRING}|{_NUMBER}|{_WORD}")
_CUDA = re.compile(
    r"(?P<co>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))|(?P<pp>#[^\n]*)"
    r"""|(?P<st>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)"""
    rf"|{_NUMBER}|{_WORD}"
)
_DELIMITED = re.compile(r"""([A-Za-z]*(?:\"{3}|'{3}))([\s\S]*?)(\"{3}|'{3}|\Z)\Z""")

_KEYWORDS = """
    alignas auto break case catch class const constexpr continue default delete do else enum
    explicit extern false for goto if inline namespace new noexcept nullptr operator private public
    return sizeof static static_assert static_cast reinterpret_cast struct switch template this
    throw true try typedef typename union using virtual volatile while asm __restrict__
    __forceinline__ __global__ __device__ __host__ __shared__ __constant__ __launch_bounds__
"""
_TYPES = """
    bool char double float half int long short signed unsigned void int8_t int16_t int32_t int64_t
    uint8_t uint16_t uint32_t uint64_t size_t float2 float4 int2 int4 half2 __half __half2
    __nv_bfloat16 dim3 threadIdx blockIdx blockDim gridDim warpSize torch at c10 std Tensor scalar_t
"""
_PYTHON_WORDS = dict.fromkeys(keyword.kwlist, "kw")
_CUDA_WORDS = dict.fromkeys(_KEYWORDS.split(), "kw") | dict.fromkeys(_TYPES.split(), "ty")


def tokens(source: str) -> Iterator[tuple[str, str]]:
    """Yield class and text of each piece, in order; together they are the source. Plain text has no class."""
    for css, text in _lexed(source, _PYTHON, _PYTHON_WORDS):
        parts = _DELIMITED.fullmatch(text) if css == "st" and "\n" in text and ";" in text else None
        if parts is None:
            yield css, text
            continue
        begin, inner, end = parts.groups()
        yield "st", begin
        yield from _lexed(inner, _CUDA, _CUDA_WORDS)
        yield "st", end


def _lexed(source: str, pattern: re.Pattern[str], known: dict[str, str]) -> Iterator[tuple[str, str]]:
    end = 0
    for match in pattern.finditer(source):
        if match.start() > end:
            yield "", source[end : match.start()]
        end, text, css = match.end(), match.group(), match.lastgroup or ""
        if css == "word":
            css = known.get(text, "fn" if source[end : end + 1] == "(" else "")
        yield css, text
    if end < len(source):
        yield "", source[end:]
