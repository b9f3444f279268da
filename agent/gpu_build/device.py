"""Device unit: cuda_sources for NVIDIA's compiler, with declared headers or with the full slim headers.

The declared headers, which define little, are tried first. They are read as C++17, whose standard
headers take half the time, and list only ATen functions that the source names. nvcc's two front ends run in
parallel. If they fail, the full headers decide, in C++20 as torch builds.
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
# The declared headers do not support pybind11 bindings.
_BINDING = re.compile(r"\bPYBIND11_MODULE\b|\bpy(?:bind11)?::")
# A source that uses the results of these functions as std::string needs the header `string`.
_ANSWERS_TEXT = re.compile(r"\b(?:toString|str|name|what|msg)\s*\(")


class DeviceUnit:
    """Translation unit of a request's cuda_sources. Raises Doubt for flags that only stock torch handles."""

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
        """True if the declared headers may suffice, as the source binds no functions itself."""
        return _BINDING.search(self._source) is None

    def key(self, *, full: bool) -> str:
        """Return a digest of everything that determines the compiled object."""
        headers = "full" if full else "declared"
        return digest(self._toolchain.key, headers, *self._flags, self._text)[:32]

    def command(self, scratch: Path, *, full: bool) -> list[str]:
        """Write the unit to `scratch` and return the command that compiles it to OBJECT."""
        (scratch / _SOURCE).write_text(self._text, encoding="utf-8", errors="surrogatepass")
        if full:
            return [*self._nvcc(STANDARD, []), "--keep", "--keep-dir", "."]
        # nvcc puts this id into the names of global symbols for the unit's local entities.
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
        """Write lists of the ATen functions that the source names, and return their include directory."""
        words = set(re.findall(r"\w+", self._source))
        place = scratch / "named"
        (place / "kw").mkdir(parents=True, exist_ok=True)
        for name in _LISTS:
            lines = (self._toolchain.headers / "kw" / name).read_text().splitlines()
            kept = [line for line in lines if (match := _LISTED.match(line)) and match[1] in words]
            (place / "kw" / name).write_text("\n".join(kept) + "\n")
        return place
