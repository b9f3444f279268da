"""The device unit: cuda_sources for NVIDIA's compiler, against bare declarations or the headers for g++.

The declared headers come first. They are read as C++17, whose standard headers take half the time. They list
only those ATen functions that the source names, and nvcc's two front ends run in parallel. A failure with
them says nothing about the candidate: the full headers decide, in the C++20 that torch builds with.
"""

import re
from pathlib import Path

from agent.build.build_request import BuildRequest
from agent.build.nvcc import unit
from agent.build.toolchain import STANDARD
from agent.gpu_build import flags
from agent.gpu_build.gpu import Gpu
from agent.gpu_build.toolchain import STEPS, GpuToolchain
from agent.records import digest

OBJECT = "cuda.o"
_SOURCE = "cuda.cu"
_DECLARED_STANDARD = "-std=c++17"
_LISTS = ("host_functions.inc", "host_methods.inc")
_LISTED = re.compile(r"KW_\w+\((\w+)\)")
# The declared headers bind nothing.
_BINDING = re.compile(r"\bPYBIND11_MODULE\b|\bpy(?:bind11)?::")
# Only the `string` header makes the results of these usable as std::string.
_ANSWERS_TEXT = re.compile(r"\b(?:toString|str|name|what|msg)\s*\(")


class DeviceUnit:
    """cuda_sources of one request. Raises Doubt for flags that stock `load_inline` has to decide on."""

    def __init__(self, toolchain: GpuToolchain, request: BuildRequest, gpu: Gpu) -> None:
        self._toolchain = toolchain
        self._source = request.cuda
        number = flags.architecture(request.extra_cuda_cflags, request.candidate_source, gpu)
        self._flags = [
            f"-gencode=arch=compute_{number},code=sm_{number}",
            *unit.OF_TORCH,
            *flags.device(request.extra_cuda_cflags),
        ]
        text = unit.text(request)
        self._text = f"#include <string>\n{text}" if _ANSWERS_TEXT.search(request.cuda) else text

    @property
    def may_be_declared(self) -> bool:
        """True if the declared headers can be enough."""
        return _BINDING.search(self._source) is None

    def key(self, *, full: bool) -> str:
        """Return a digest that changes with anything that may change the object."""
        headers = "full" if full else "declared"
        return digest(self._toolchain.key, headers, *self._flags, self._text)[:32]

    def command(self, scratch: Path, *, full: bool) -> list[str]:
        """Write the unit into `scratch` and return the command that makes OBJECT from it there."""
        (scratch / _SOURCE).write_text(self._text, encoding="utf-8", errors="surrogatepass")
        if full:
            return [*self._nvcc(STANDARD, []), "--keep", "--keep-dir", "."]
        # nvcc puts this id into global symbols for entities that are local to the unit.
        identity = f"_{self.key(full=False)[:8]}_7_cuda_cu_{self.key(full=False)[8:16]}"
        declared = [self._named(scratch), self._toolchain.device_headers]
        return ["/bin/sh", str(STEPS), identity, *self._nvcc(_DECLARED_STANDARD, declared)]

    def _nvcc(self, standard: str, before: list[Path]) -> list[str]:
        headers = [*before, self._toolchain.headers]
        return [
            str(self._toolchain.nvcc.path), "-c", standard, *self._flags, "-Xptxas=-v",
            "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-gnu-unique",
            "-ccbin", str(self._toolchain.gxx), "-allow-unsupported-compiler",
            *(word for place in headers for word in ("-isystem", str(place))), _SOURCE, "-o", OBJECT,
        ]  # fmt: skip

    def _named(self, scratch: Path) -> Path:
        """Write the lists of ATen's functions, reduced to names in the source, and return their directory."""
        words = set(re.findall(r"\w+", self._source))
        place = scratch / "named"
        (place / "kw").mkdir(parents=True, exist_ok=True)
        for name in _LISTS:
            lines = (self._toolchain.headers / "kw" / name).read_text().splitlines()
            kept = [line for line in lines if (match := _LISTED.match(line)) and match[1] in words]
            (place / "kw" / name).write_text("\n".join(kept) + "\n")
        return place
