"""Distinction of names that only the slim headers lack (a gap) from names unknown to torch and CUDA.

The headers of the installed torch and CUDA decide. They are read only for an error that may be a gap. The
distinction covers names, not signatures.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

from agent.build.toolchain import CPP
from agent.records import Finding

# Headers of CUDA's toolkit and libraries that exist on a GPU machine but not in the emulator.
_TOOLKIT = re.compile(
    r"(cublas\w*|cusparse|cusolver\w*|curand\w*|cufft\w*|cudnn\w*|nvToolsExt|nvrtc|mma|cuda_pipeline\w*"
    r"|cuda_awbarrier\w*|cuda_fp4|cuda_fp6|cuda_profiler_api|texture_\w+|surface_\w+|cudaTypedefs)\.h"
    r"|(cuda|thrust|cub|nv|cutlass|cute|cooperative_groups)/.*"
)
_MEMBER = re.compile(
    r"'(?:class|struct|const class)?\s*(?:const )?([\w:]+)(?:<.*>)?' has no member named '(\w+)'"
)
_QUALIFIED = re.compile(r"'(\w+)' (?:is not a member of|in namespace|has not been declared in) '([\w:]+)'")
_SCOPE = re.compile(r"'(\w+)::(?:\w+::)*(\w+)' has not been declared")
_UNDECLARED = re.compile(r"'(\w+)' (?:was not declared|does not name a type|has not been declared)")
_MISSING = re.compile(r"([\w./+-]+): No such file or directory")
_LACKING = re.compile(r" headers lack (.+?); a GPU build may")
_IN_TORCH = re.compile(r"\b(?:at|c10|torch)::")
# Headers and symbols that work only in a CUDA build of torch.
_CUDA_PART = re.compile(r"(?:ATen|c10)/(?:native/)?(?:cuda|cudnn)/|torch/csrc/(?:cuda|distributed)/")
_CUDA_SYMBOL = re.compile(r"undefined symbol: .*?\b((?:c10|at|torch)::(?:native::)?cuda::[\w:]+)")
_TENSOR_HEADERS = ("TensorBody.h", "TensorBase.h")
_OURS = ("at", "torch", "c10", "caffe2", "pybind11", "py")


def explain(message: str, cuda_include: Path) -> str | None:
    """Return the name that a compiler message misses and only the slim headers lack, or None."""
    missing = _MISSING.search(message)
    if missing:
        return f"the header {missing[1]}" if _is_real_header(missing[1], cuda_include) else None
    member = _MEMBER.search(message)
    if member:
        owner = member[1].split("::")[0]
        known = member[2] in (_tensor_methods() if member[1] == "at::Tensor" else _torch_words())
        lacking = owner in _OURS and known and member[2] not in _own_words()
        return f"{member[1]}::{member[2]}" if lacking else None
    qualified = _QUALIFIED.search(message)
    if qualified:
        owner = qualified[2].split("::")[0]
        return f"{qualified[2]}::{qualified[1]}" if owner in _OURS and in_torch_only(qualified[1]) else None
    scope = _SCOPE.search(message)
    if scope:
        known = scope[1] in _OURS and in_torch_only(scope[2])
        return f"{scope[1]}::{scope[2]}" if known else None
    undeclared = _UNDECLARED.search(message)
    if undeclared and (_is_macro_of_torch(undeclared[1]) or is_function_of_cuda(undeclared[1], cuda_include)):
        return undeclared[1]
    return None


def is_of_toolkit(gap: Finding) -> bool:
    """Return True if the gap is a header of the CUDA toolkit, which nvcc finds."""
    lacking = _LACKING.search(gap.message)
    return lacking is not None and bool(_TOOLKIT.fullmatch(lacking[1].removeprefix("the header ")))


def is_of_torch(gap: Finding, cuda_include: Path) -> bool:
    """Return True if a build with torch's own headers may fill the gap, which lies not in CUDA's headers."""
    lacking = _LACKING.search(gap.message)
    if lacking is None:
        return bool(_IN_TORCH.search(gap.message))
    name = lacking[1]
    if name.startswith("the header "):
        header = name.removeprefix("the header ")
        return any((root / header).is_file() for root in _torch_roots()) and not _CUDA_PART.match(header)
    return not is_function_of_cuda(name, cuda_include)


def beyond_torch(error: Finding, cuda_include: Path) -> Finding | None:
    """Return an error of a build with torch's own headers as a `header-gap` if it is one, or None.

    On a machine without CUDA, torch's headers lack CUDA's names and the parts of torch that need CUDA.
    """
    text = error.evidence or error.message
    lacking = _lacking_beyond_torch(text, cuda_include)
    if lacking is None:
        return None
    message = f"The emulator's torch and CUDA headers lack {lacking}; a GPU build may accept this code."
    return error.model_copy(update={"kind": "header-gap", "message": message})


def _lacking_beyond_torch(text: str, cuda_include: Path) -> str | None:
    missing = _MISSING.search(text)
    if missing:
        known = _CUDA_PART.match(missing[1]) or _is_real_header(missing[1], cuda_include)
        return f"the header {missing[1]}" if known else None
    symbol = _CUDA_SYMBOL.search(text)
    if symbol:
        return symbol[1]
    qualified = _QUALIFIED.search(text)
    if qualified and "cuda" in qualified[2].split("::"):
        return f"{qualified[2]}::{qualified[1]}" if qualified[1] in _torch_words() else None
    undeclared = _UNDECLARED.search(text)
    if undeclared:
        name = undeclared[1]
        of_cuda = is_function_of_cuda(name, cuda_include) or (
            name.isupper() and name in _cuda_words_of_torch()
        )
        return name if of_cuda else None
    return None


def _is_real_header(name: str, cuda_include: Path) -> bool:
    if _TOOLKIT.fullmatch(name) or (cuda_include / name).is_file():
        return True
    return any((root / name).is_file() for root in _torch_roots())


def in_torch_only(name: str) -> bool:
    """Return True if torch's headers have the identifier and the slim headers do not."""
    return name in _torch_words() and name not in _own_words()


def _is_macro_of_torch(name: str) -> bool:
    return name.isupper() and in_torch_only(name)


def is_function_of_cuda(name: str, cuda_include: Path) -> bool:
    """Return True if CUDA's headers declare the function and the emulator's headers do not."""
    return name not in _own_words() and name in _cuda_functions(cuda_include)


def _torch_roots() -> list[Path]:
    spec = importlib.util.find_spec("torch")
    places = (spec.submodule_search_locations or []) if spec else []
    includes = [Path(place) / "include" for place in places]
    return [root for include in includes for root in (include, include / "torch/csrc/api/include")]


@cache
def _torch_words() -> frozenset[str]:
    """Return every identifier of torch's public headers; operators come from their headers' file names."""
    words: set[str] = set()
    for root in _torch_roots()[:1]:
        operators = root / "ATen" / "ops"
        words |= {path.stem for path in operators.glob("*.h")}
        for folder in ("ATen", "c10", "pybind11", "torch/csrc/api/include", "torch/csrc/utils"):
            for path in (root / folder).rglob("*.h"):
                if path.parent != operators:
                    words |= _identifiers(path)
    return frozenset(words)


@cache
def _cuda_words_of_torch() -> frozenset[str]:
    folders = [root / part / "cuda" for root in _torch_roots()[:1] for part in ("ATen", "c10")]
    return frozenset().union(*(_identifiers(path) for folder in folders for path in folder.rglob("*.*h")))


@cache
def _tensor_methods() -> frozenset[str]:
    files = [root / "ATen" / "core" / name for root in _torch_roots()[:1] for name in _TENSOR_HEADERS]
    return frozenset().union(
        *(re.findall(r"\b(\w+)\s*\(", path.read_text(errors="replace")) for path in files)
    )


@cache
def _own_words() -> frozenset[str]:
    include = CPP / "include"
    return frozenset().union(*(_identifiers(path) for path in include.rglob("*") if path.is_file()))


@cache
def _cuda_functions(include: Path) -> frozenset[str]:
    headers = [*include.glob("*.h"), *include.glob("*.hpp"), *(include / "crt").glob("*")]
    names: set[str] = set()
    for path in headers:
        names |= set(re.findall(r"\b(\w+)\s*\(", path.read_text(errors="replace")))
    return frozenset(names)


def _identifiers(path: Path) -> set[str]:
    return set(re.findall(r"\b[A-Za-z_]\w*\b", path.read_text(errors="replace")))
