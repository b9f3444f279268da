"""Which compiler and linker flags of a load_inline call are taken, and which have an effect here."""

import re

# Understood and harmless: they choose an architecture, an optimisation level or a diagnostic of nvcc.
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
# These take the next word as their value.
_WITH_VALUE = {
    "-gencode": re.compile(r"arch=[\w,=\[\]\"-]+"),
    "--generate-code": re.compile(r"arch=[\w,=\[\]\"-]+"),
    "-arch": re.compile(r"[\w,-]+"),
    "-Xptxas": re.compile(r"-[\w,=-]+"),
    "--ptxas-options": re.compile(r"-[\w,=-]+"),
    "-Xcompiler": re.compile(r"-(fPIC|O[0-3]|W[\w-]+|fopenmp|march=native|ffast-math|fno-[\w-]+)"),
    "-maxrregcount": re.compile(r"\d+"),
    "-D": re.compile(r"[A-Za-z_]\w*(=[\w.+-]*)?"),
    "-std": re.compile(r"c\+\+\w+"),
}
_DEFINE = re.compile(r"-D[A-Za-z_]\w*(=[\w.+\"-]*)?|-U[A-Za-z_]\w*")
_STANDARD = re.compile(r"--?std=(c|gnu)\+\+\w+")
_LIBRARIES = {"-lcuda", "-lcudart", "-lm", "-lstdc++", "-lpthread", "-lc10", "-ltorch", "-ltorch_cpu"}


def effective(given: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """(flags for g++, refused flags) of extra_cflags or extra_cuda_cflags.

    Definitions are passed on. The language standard is the one torch builds with, whatever was asked,
    and optimisation and architecture flags are understood and have no effect.
    """
    passed: list[str] = []
    refused: list[str] = []
    words = iter([word for flag in given for word in flag.split()])
    for word in words:
        pattern = _WITH_VALUE.get(word)
        if pattern is not None:
            value = next(words, "")
            if not pattern.fullmatch(value):
                refused.append(f"{word} {value}".strip())
            elif word == "-D":
                passed.append(f"-D{value}")
        elif _DEFINE.fullmatch(word):
            passed.append(word)
        elif not (_ACCEPTED.fullmatch(word) or _STANDARD.fullmatch(word)):
            refused.append(word)
    return passed, refused


def refused_links(given: tuple[str, ...]) -> list[str]:
    """What of extra_ldflags is no library that every CUDA extension has anyway."""
    return [word for flag in given for word in flag.split() if word not in _LIBRARIES]
