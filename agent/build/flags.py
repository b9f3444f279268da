"""Compiler and linker flags of a load_inline call: accepted, refused, or passed to the emulator's compiler.

A candidate may define macros with names of its own. It may not define names of the language, compilers, CUDA,
torch or the emulator's headers, as that would change the meaning of a header or of a check.
"""

import re
from functools import cache
from pathlib import Path

import agent
from agent.build.logical_text import logical

# Flags that are accepted without effect: architectures, optimisation levels, diagnostics.
_ACCEPTED = re.compile(
    r"-O[0-3sgz]?|-Ofast|-g|-G|-w|-lineinfo|-line-info|--generate-line-info"
    r"|--?use_fast_math|-ffast-math|-f(no-)?(unroll-loops|strict-aliasing|math-errno|openmp|exceptions|inline)"
    r"|-fPIC|-f?openmp|-pthread|-march=[\w.+-]+|-mtune=[\w.+-]+|-m(avx2?|fma|f16c|sse[\d.]*)|-W[\w+=#-]*"
    r"|-(-gpu-)?arch(itecture)?=[\w,-]+|--gpu-architecture=[\w,-]+|-gencode(=?arch=[\w,=\[\]\"-]+)?"
    r"|--generate-code(=arch=[\w,=\[\]\"-]+)?"
    r"|--?(extended-lambda|expt-extended-lambda|expt-relaxed-constexpr|restrict)"
    r"|--?(fmad|ftz|prec-div|prec-sqrt|maxrregcount|default-stream|diag-suppress|threads)=[\w,-]+"
    r"|-t=?\d+|-Xptxas=[\w,=-]+|--ptxas-options=[\w,=-]+|-res-usage|--resource-usage|-rdc=false"
    r"|-Xcompiler=-(fPIC|O[0-3]|Wall|Wno-[\w-]+|fopenmp|march=native|ffast-math)"
)
# Flags that take the next word as their value, with the accepted values.
_WITH_VALUE = {
    "-gencode": re.compile(r"arch=[\w,=\[\]\"-]+"),
    "--generate-code": re.compile(r"arch=[\w,=\[\]\"-]+"),
    "-arch": re.compile(r"[\w,-]+"),
    "-Xptxas": re.compile(r"-[\w,=-]+"),
    "--ptxas-options": re.compile(r"-[\w,=-]+"),
    "-Xcompiler": re.compile(r"-(fPIC|O[0-3]|W[\w-]+|fopenmp|march=native|ffast-math|fno-[\w-]+)"),
    "-maxrregcount": re.compile(r"\d+"),
    "-D": re.compile(r"[A-Za-z_]\w*(=[\w.+-]*)?"),
    "-std": re.compile(r"(c|gnu)\+\+(17|1z|20|2a|23|2b|26|2c)"),
}
_DEFINE = re.compile(r"-D([A-Za-z_]\w*)(?:=([\w.+\"-]*))?|-U([A-Za-z_]\w*)")
_RESERVED = re.compile(r"_[A-Z_]\w*|\w*__\w*|kw_\w*|(AT|C10|CUB|THRUST|TORCH|PYBIND11|Py|CCCL)_\w*", re.I)
_TAKEN = re.compile(
    r"__CUDA_NO_(HALF2?|BFLOAT162?)_(OPERATORS|CONVERSIONS)__|_GLIBCXX_USE_CXX11_ABI|_GNU_SOURCE"
    r"|_USE_MATH_DEFINES|TORCH_EXTENSION_NAME|TORCH_API_INCLUDE_EXTENSION_H|PYBIND11_(COMPILER_TYPE|STDLIB|BUILD_ABI)"
)
"""Reserved names that a candidate may set or unset, because torch's own command line has them."""
_LANGUAGE = re.compile(
    r"align(as|of)|asm|assert|auto|bool|break|case|catch|char|class|concept|const(expr|eval|init)?|continue"
    r"|decltype|default|delete|do|double|else|enum|explicit|export|extern|false|float|for|friend|goto|if|inline"
    r"|int|long|mutable|namespace|new|noexcept|nullptr|operator|private|protected|public|register|requires"
    r"|return|short|signed|sizeof|static|struct|switch|template|this|throw|true|try|typedef|typeid|typename"
    r"|union|unsigned|using|virtual|void|volatile|while"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_HEADERS = Path(agent.__file__).parent / "emulator" / "cpp"
_STANDARD = re.compile(r"--?std=(c|gnu)\+\+(17|1z|20|2a|23|2b|26|2c)")
"""Language standards that torch's own headers support."""
_CAPABILITY = re.compile(r"(?:sm|compute|lto)_(\d+)")
_KNOWN = frozenset(["75", "80", "86", "87", "88", "89", "90", "100", "103", "110", "120", "121"])
"""Compute capabilities that nvcc of CUDA 13 knows, without the letter of a variant."""
_LIBRARIES = {"-lcuda", "-lcudart", "-lm", "-lstdc++", "-lpthread", "-lc10", "-ltorch", "-ltorch_cpu"}


def effective(given: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the flags for g++ and the refused flags of extra_cflags or extra_cuda_cflags.

    Macro definitions are passed on to g++. The language standard is always the one that torch builds with.
    Optimisation and architecture flags are accepted without effect.
    """
    passed: list[str] = []
    refused: list[str] = []
    words = iter([word for flag in given for word in flag.split()])
    for word in words:
        pattern = _WITH_VALUE.get(word)
        if pattern is not None:
            value = next(words, "")
            if (
                not pattern.fullmatch(value)
                or not _is_known(value)
                or (word == "-D" and not _is_its_own(f"-D{value}"))
            ):
                refused.append(f"{word} {value}".strip())
            elif word == "-D":
                passed.append(f"-D{value}")
        elif _DEFINE.fullmatch(word) and _is_its_own(word):
            passed.append(word)
        elif not (_STANDARD.fullmatch(word) or (_ACCEPTED.fullmatch(word) and _is_known(word))):
            refused.append(word)
    return passed, refused


def _is_known(flag: str) -> bool:
    """Return True if nvcc knows every architecture that the flag names."""
    return all(number in _KNOWN for number in _CAPABILITY.findall(flag))


def words_of(given: tuple[str, ...]) -> list[str]:
    """Return the flags as single words, with one leading dash instead of two."""
    return [re.sub(r"^--", "-", word) for flag in given for word in flag.split()]


def has_fast_math(given: tuple[str, ...]) -> bool:
    """Return True if the flags make nvcc replace functions by approximate ones."""
    return "-use_fast_math" in words_of(given)


def of_arithmetic(given: tuple[str, ...]) -> list[str]:
    """Return flags for g++ that make it round as nvcc does with the given flags."""
    return ["-ffp-contract=off"] if "-fmad=false" in words_of(given) else []


def definitions(given: tuple[str, ...]) -> list[str]:
    """Return the macro definitions among the accepted flags as #define lines."""
    parts = [_DEFINE.fullmatch(flag) for flag in effective(given)[0]]
    return [f"#define {part[1]} {part[2] or 1}" for part in parts if part and part[1]]


def _is_its_own(definition: str) -> bool:
    """Return True if a macro's name is the candidate's own and its value has no `kw_` or `__` name."""
    parts = _DEFINE.fullmatch(definition)
    if parts is None:
        return False
    name, value = parts[1] or parts[3], parts[2] or ""
    if _TAKEN.fullmatch(name):
        return True
    is_free = not _RESERVED.fullmatch(name) and not _LANGUAGE.fullmatch(name) and name not in _of_headers()
    return is_free and not any(re.fullmatch(r"kw_\w*|__\w*", word, re.I) for word in _WORD.findall(value))


@cache
def _of_headers() -> frozenset[str]:
    """Return every identifier in the emulator's headers."""
    texts = [path.read_text() for path in sorted(_HEADERS.rglob("*")) if path.suffix in ("", ".h", ".cuh")
             and path.is_file()]  # fmt: skip
    return frozenset(name for text in texts for name in _WORD.findall(logical(text).code))


def refused_links(given: tuple[str, ...]) -> list[str]:
    """Return the words of extra_ldflags, except for libraries that every CUDA extension links."""
    return [word for flag in given for word in flag.split() if word not in _LIBRARIES]
