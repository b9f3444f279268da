"""The shipped kernels' files: one folder each, and the same device code with two faces.

`csrc/library.cu` is the face of the library (plain C, no torch header); `candidate.py` is the face of a
`ModelNew` file for `agent eval` and the catalogue, whose CUDA text includes the same device code. Nothing is
compiled or imported here.
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
"""Kernels of one operator each."""
FUSED = ("conv_group_norm_tanh_hardswish_residual_logsumexp", "linear_group_norm_min_bias")
"""Kernels of a whole reference."""
NAMES = tuple(sorted((*OPERATORS, *FUSED)))
"""Every shipped kernel, by the name of its folder."""
OWN_REFERENCES = (
    "add_layer_norm", "add_rms_norm", "batch_norm", "conv_fp32x3", "cross_entropy", "cumsum",
    "embedding_norm", "gate_product", "linear_cross_entropy", "masked_softmax", "matmul_half", "reduction",
    "rotary",
)  # fmt: skip
"""Those that are judged against a reference in their own folder."""
OWN_PATHS = dict.fromkeys(
    (
        *FUSED, "conv_fp32x3", "cross_entropy", "cumsum", "group_norm", "linear_cross_entropy",
        "linear_fp32x3", "logsumexp", "masked_softmax", "matmul_fp32x3", "matmul_half", "softmax",
    ),
    "90a",
)  # fmt: skip
"""Kernels that are fast by a path for one architecture: their candidate file for it holds that path too."""
DTYPES = ("float32", "float16", "bfloat16")
"""What elements are stored as; device code knows each by its place here."""
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
"""Kernels with a library for each dtype, since one for all takes three times as long to build: in which field
of each direction's struct a call says its own."""
ALL = "all"
"""In the place of a dtype: the library that has each dtype of its kernel."""
PROMOTED = "promoted"
"""Folder of the kernels that `agent kernels promote` kept: ModelNew files alone, with their references."""
LIBRARY = Path("csrc") / "library.cu"
CANDIDATE = Path("candidate.py")
REFERENCE = Path("reference.py")
MANIFEST = Path("kernel.json")

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_ONCE = re.compile(r"^#pragma once\n+", re.MULTILINE)
_NOT_PORTABLE = re.compile(
    r"^#ifndef KW_PORTABLE_ONLY\n.*?(?:^#else\n(?P<instead>.*?))?^#endif\b.*?\n", re.MULTILINE | re.DOTALL
)
"""What is for one architecture only, and what stands in its place elsewhere."""
_MODEL_NEW = "class ModelNew"
_FLAGS = 'extra_cuda_cflags=["-O3"'


def promoted() -> tuple[str, ...]:
    """Every kernel that was promoted, as `promoted/NAME`."""
    return tuple(sorted(f"{PROMOTED}/{path.parent.name}" for path in ROOT.glob(f"{PROMOTED}/*/{MANIFEST}")))


def device_code(name: str) -> dict[str, str]:
    """Text of every file that the library of a kernel is compiled from, by its path below this folder.

    Empty for a promoted kernel, which has none.
    """
    found: dict[str, str] = {}
    if (ROOT / name / LIBRARY).is_file():
        _collect(ROOT / name / LIBRARY, found)
    return found


def candidate(name: str, arch: str | None = None) -> str:
    """The kernel as one self-contained file with a `ModelNew`: local includes stand in it as their text.

    It holds the portable path, which every GPU and the emulator run. For the architecture (`90a`) that
    OWN_PATHS names for the kernel it holds that path beside it, and is built for that architecture alone.
    """
    path = ROOT / name / CANDIDATE
    text = path.read_text(encoding="utf-8")
    portable = arch is None or OWN_PATHS.get(name) != arch
    if not portable:
        text = text.replace(_FLAGS, f'{_FLAGS}, "-gencode=arch=compute_{arch},code=sm_{arch}"', 1)
    return "".join(_expanded(path, text, {path}, portable))


def as_portable(text: str) -> str:
    """Device code as a compiler reads it with KW_PORTABLE_ONLY."""
    return _NOT_PORTABLE.sub(lambda part: part["instead"] or "", text)


def kernel_part(name: str, arch: str | None = None) -> str:
    """`candidate` without its `ModelNew`: what the catalogue writes another one below."""
    return candidate(name, arch).partition(_MODEL_NEW)[0]


def parts(name: str) -> tuple[str, ...]:
    """The libraries of a kernel: one for each dtype, or ALL alone."""
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
    """The text with each local include replaced by that file, the first time it is named."""
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
