"""Files of the shipped kernels: one folder each, whose device code serves two interfaces.

`csrc/library.cu` is the library: plain C without a torch header. `candidate.py` is a `ModelNew` file for
`agent eval` and the catalogue, and its CUDA text includes the same device code. This module compiles and
imports none of them.
"""

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from agent.kernels.code_text import code

ROOT = Path(__file__).resolve().parent
OPERATORS = (
    "add_layer_norm", "add_rms_norm", "batch_norm", "conv_fp32x3", "cross_entropy", "cumsum",
    "embedding_norm", "gate_product", "gelu", "group_norm", "layer_norm", "linear_cross_entropy",
    "linear_fp32x3", "logsumexp", "masked_softmax", "matmul_fp32x3", "matmul_half", "reduction", "rms_norm",
    "rotary", "softmax",
)  # fmt: skip
"""Kernels that implement one operator each."""
FUSED = ("conv_group_norm_tanh_hardswish_residual_logsumexp", "linear_group_norm_min_bias")
"""Kernels that implement a whole reference."""
NAMES = tuple(sorted((*OPERATORS, *FUSED)))
"""Every shipped kernel, by the name of its folder."""
OWN_REFERENCES = (
    "add_layer_norm", "add_rms_norm", "batch_norm", "conv_fp32x3", "cross_entropy", "cumsum",
    "embedding_norm", "gate_product", "linear_cross_entropy", "masked_softmax", "matmul_half", "reduction",
    "rotary",
)  # fmt: skip
"""Kernels that are judged against a reference in their own folder."""
OWN_PATHS = dict.fromkeys(
    (
        *FUSED, "conv_fp32x3", "cross_entropy", "cumsum", "group_norm", "linear_cross_entropy",
        "linear_fp32x3", "logsumexp", "masked_softmax", "matmul_fp32x3", "matmul_half", "softmax",
    ),
    "90a",
)  # fmt: skip
"""Kernels with a fast path for one architecture; their candidate file for it contains that path."""
DTYPES = ("float32", "float16", "bfloat16")
"""Storage dtypes; device code knows each by its index here."""
APART = {
    "add_layer_norm": {"forward": 10, "backward": 12},
    "add_rms_norm": {"forward": 10, "backward": 12},
    "group_norm": {"forward": 12, "backward": 16},
    "layer_norm": {"forward": 8, "backward": 11},
    "masked_softmax": {"forward": 14, "backward": 11},
    "reduction": {"forward": 11, "backward": 11},
    "rms_norm": {"forward": 8, "backward": 11},
    "softmax": {"forward": 5, "backward": 6},
}
"""Kernels with a library for each dtype, because one library for all dtypes takes three times as long to
build.

The numbers are the index of the field, in each direction's struct, that holds the dtype of the call."""
ALL = "all"
"""Name that stands for a dtype in a library that serves every dtype of its kernel."""
PROMOTED = "promoted"
"""Folder of the kernels kept by `agent kernels promote`: ModelNew files and their references."""
LIBRARY = Path("csrc") / "library.cu"
CANDIDATE = Path("candidate.py")
REFERENCE = Path("reference.py")
MANIFEST = Path("kernel.json")

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_ONCE = re.compile(r"^#pragma once\n+", re.MULTILINE)
_NOT_PORTABLE = re.compile(
    r"^#ifndef KW_PORTABLE_ONLY\n.*?(?:^#else\n(?P<instead>.*?))?^#endif\b.*?\n", re.MULTILINE | re.DOTALL
)
"""Code for one architecture only, and the code that replaces it on all others."""
_MODEL_NEW = "class ModelNew"
_FLAGS = 'extra_cuda_cflags=["-O3"'


def promoted() -> tuple[str, ...]:
    """Return every promoted kernel, as `promoted/NAME`."""
    return tuple(sorted(f"{PROMOTED}/{path.parent.name}" for path in ROOT.glob(f"{PROMOTED}/*/{MANIFEST}")))


def device_code(name: str) -> dict[str, str]:
    """Return the text of every file compiled into a kernel's library, by path below this folder.

    Empty for a promoted kernel, which has no library.
    """
    found: dict[str, str] = {}
    if (ROOT / name / LIBRARY).is_file():
        _collect(ROOT / name / LIBRARY, found)
    return found


def candidate(name: str, arch: str | None = None) -> str:
    """Return the kernel as one self-contained `ModelNew` file, with local includes expanded.

    It contains the portable path, which every GPU and the emulator run. If `arch` (`90a`) is the architecture
    that OWN_PATHS names for the kernel, the file also contains that path, and is built for that architecture
    alone.
    """
    path = ROOT / name / CANDIDATE
    text = path.read_text(encoding="utf-8")
    portable = arch is None or OWN_PATHS.get(name) != arch
    if not portable:
        text = text.replace(_FLAGS, f'{_FLAGS}, "-gencode=arch=compute_{arch},code=sm_{arch}"', 1)
    return "".join(_expanded(path, text, {path}, portable))


def as_portable(text: str) -> str:
    """Return device code as a compiler sees it with KW_PORTABLE_ONLY."""
    return _NOT_PORTABLE.sub(lambda part: part["instead"] or "", text)


def kernel_part(name: str, arch: str | None = None) -> str:
    """Return `candidate` without its `ModelNew` class; the catalogue appends another one."""
    return candidate(name, arch).partition(_MODEL_NEW)[0]


def parts(name: str) -> tuple[str, ...]:
    """Return the libraries of a kernel: one for each dtype, or ALL alone."""
    return DTYPES if name in APART else (ALL,)


@cache
def files(name: str) -> dict[str, str]:
    """Return a digest of the code of each file that decides what the kernel does, by path below this folder.

    Comments and docstrings do not count.
    """
    paths = {
        ROOT / name / CANDIDATE,
        *(ROOT / name).glob("*.py"),
        *(ROOT / path for path in device_code(name)),
    }
    paths |= {ROOT / path for path in _included(ROOT / name / CANDIDATE)}
    return {
        path.relative_to(ROOT).as_posix(): hashlib.sha256(code(path).encode()).hexdigest()
        for path in sorted(paths)
    }


def _collect(path: Path, found: dict[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    found[path.relative_to(ROOT).as_posix()] = text
    for included in _INCLUDE.findall(text):
        target = (path.parent / included).resolve()
        if target.relative_to(ROOT).as_posix() not in found:
            _collect(target, found)


def _included(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    _collect(path, found)
    return found


def _expanded(path: Path, text: str, seen: set[Path], portable: bool) -> Iterator[str]:
    """Yield the text, with each local include replaced by its file at the first occurrence."""
    end = 0
    for match in _INCLUDE.finditer(text):
        yield text[end : match.start()]
        end = match.end()
        target = (path.parent / match[1]).resolve()
        if target not in seen:
            seen.add(target)
            included = _ONCE.sub("", target.read_text(encoding="utf-8"))
            yield from _expanded(target, as_portable(included) if portable else included, seen, portable)
    yield text[end:]
