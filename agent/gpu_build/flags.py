"""Flags of a load_inline call in a slim build: passed on, ignored as without effect, or a reason for Doubt.

A flag that is in none of the lists below may change the build, so it is left to stock `load_inline`.
"""

import re
from collections.abc import Iterator

from agent.gpu_build.doubt import Doubt
from agent.gpu_build.gpu import Gpu

# Flags that take the next word as their value.
_WITH_VALUE = {
    "-gencode", "--generate-code", "-arch", "--gpu-architecture", "-Xptxas", "--ptxas-options", "-Xcompiler",
    "--compiler-options", "-maxrregcount", "--maxrregcount", "-std", "--std", "-D", "-U", "-diag-suppress",
    "--diag-suppress",
}  # fmt: skip
_DEFINITION = re.compile(r"-[DU][A-Za-z_]\w*(=[\w.+\"-]*)?")
_STANDARD = re.compile(r"--?std=(c|gnu)\+\+(17|20)")
_HOST_IDLE = re.compile(r"-O[0-3sg]?|-g|-w|-W[\w+=#-]*|-fPIC|-fno-strict-aliasing|-pthread")
_DEVICE_PASSED = re.compile(
    r"-O[0-3]|-G|-lineinfo|-line-info|--generate-line-info|--?use_fast_math|-w"
    r"|--?(extended-lambda|expt-extended-lambda|expt-relaxed-constexpr|restrict)"
    r"|--?(fmad|ftz|prec-div|prec-sqrt)=(true|false)|--?maxrregcount=\d+|--?diag-suppress=[\w,]+"
)
_DEVICE_IDLE = re.compile(
    r"-g|-res-usage|--resource-usage|-t=?\d+|--threads=\d+|-rdc=false|--relocatable-device-code=false"
    r"|(-Xcompiler|--compiler-options)=-(fPIC|O[0-3]|W[\w+=-]*|fno-strict-aliasing)"
)
_PTXAS = re.compile(r"(?:-Xptxas|--ptxas-options)=([\w,=-]+)")
_ARCHITECTURE = re.compile(r"(?:-gencode|--generate-code|-arch|--gpu-architecture)=(.*)")
_LIST_OF_TORCH = re.compile(r"TORCH_CUDA_ARCH_LIST\W{1,8}([\d.a]+)(?:\+PTX)?[\"']")
_LIBRARIES = {"-lcudart", "-lm", "-lstdc++", "-lpthread", "-lc10", "-ltorch", "-ltorch_cpu", "-ltorch_cuda"}


def host(given: tuple[str, ...]) -> list[str]:
    """Return the macro definitions in extra_cflags, for g++. Raises Doubt for an unknown flag."""
    passed = []
    for word in _words(given):
        if _DEFINITION.fullmatch(word):
            passed.append(word)
        elif not (_HOST_IDLE.fullmatch(word) or _STANDARD.fullmatch(word)):
            raise Doubt(f"extra_cflags has {word}")
    return passed


def device(given: tuple[str, ...]) -> list[str]:
    """Return the flags of extra_cuda_cflags for nvcc, without the architecture.

    Raises Doubt for an unknown flag.
    """
    passed = []
    for word in _words(given):
        options = _PTXAS.fullmatch(word)
        if options:
            passed += [f"-Xptxas={option}" for option in options[1].split(",") if option not in ("-v", "--v")]
        elif _DEFINITION.fullmatch(word) or _DEVICE_PASSED.fullmatch(word):
            passed.append(word)
        elif not any(p.fullmatch(word) for p in (_DEVICE_IDLE, _STANDARD, _ARCHITECTURE)):
            raise Doubt(f"extra_cuda_cflags has {word}")
    return list(dict.fromkeys(passed))


def architecture(given: tuple[str, ...], candidate_source: str, gpu: Gpu) -> str:
    """Return the GPU's architecture number, such as `90`, or `90a` if the candidate asks for that variant.

    Raises Doubt if the candidate asks for another GPU.
    """
    asked = [match[1] for word in _words(given) if (match := _ARCHITECTURE.fullmatch(word))]
    numbers = {number for words in asked for number in re.findall(r"(?:sm|compute)_(\w+)", words)}
    if asked and not numbers:
        raise Doubt(f"extra_cuda_cflags asks for the architecture {asked[0]}")
    if "TORCH_CUDA_ARCH_LIST" in candidate_source:
        named = set(_LIST_OF_TORCH.findall(candidate_source))
        if not named:
            raise Doubt("the candidate sets TORCH_CUDA_ARCH_LIST in a way that was not understood")
        numbers |= {name.replace(".", "") for name in named}
    if numbers - {gpu.number, f"{gpu.number}a"}:
        raise Doubt(f"the candidate asks for sm_{sorted(numbers)[0]}, and the GPU is sm_{gpu.number}")
    return f"{gpu.number}a" if f"{gpu.number}a" in numbers else gpu.number


def links(given: tuple[str, ...]) -> None:
    """Raise Doubt for linker flags other than the libraries that every CUDA extension links."""
    for word in (word for flag in given for word in flag.split()):
        if word not in _LIBRARIES:
            raise Doubt(f"extra_ldflags has {word}")


def _words(given: tuple[str, ...]) -> Iterator[str]:
    """Yield one word for each flag, joining a flag and its value if these are two words."""
    words = iter([word for flag in given for word in flag.split()])
    for word in words:
        if word in ("-D", "-U"):
            yield word + next(words, "")
        elif word in _WITH_VALUE:
            yield f"{word}={next(words, '')}"
        else:
            yield word
