"""One request of load_inline, built for a real GPU: two units beside each other, and a link.

An object is kept by what went into it, so that a change of the device code compiles nothing else. An error
that NVIDIA's compiler finds in device code is the candidate's; any other may be a gap of the slim headers
and is a Doubt.
"""

import re
import time
from pathlib import Path

from agent.emulator import build_findings, compiler, nvcc, objects
from agent.emulator.built import Built, kept
from agent.emulator.nvcc import unit as device_unit
from agent.emulator.objects import Compilation, Unit
from agent.emulator.toolchain import STANDARD
from agent.emulator.units import BuildRequest, main_unit
from agent.errors import EnvironmentFault
from agent.gpu_build import flags
from agent.gpu_build.doubt import Doubt, of_sources
from agent.gpu_build.gpu import Gpu
from agent.gpu_build.toolchain import GpuToolchain
from agent.records import Finding, digest

LANE = "gpu-slim"
_LOG_CHARACTERS = 20_000
_SOURCE, _OBJECT = "cuda.cu", "cuda.o"
_CERTAIN = ("missing-declaration", "extern-c")
"""What g++ finds in cpp_sources that no header could change."""
# These need the headers that g++ compiles: the declared ones bind nothing.
_BINDING = re.compile(r"\bPYBIND11_MODULE\b|\bpy(?:bind11)?::")
# What these answer is a std::string only where that is known.
_ANSWERS_TEXT = re.compile(r"\b(?:toString|str|name|what|msg)\s*\(")


class _Gap(Doubt):
    """The declared headers were not enough for the device unit; fuller ones may be."""


def extension(
    toolchain: GpuToolchain, request: BuildRequest, gpu: Gpu, cache: Path, timeout_s: float
) -> Built:
    """The library for `request`, from `cache` where the same one was built before, or why it has a fault.

    Raises Doubt where stock `load_inline` has to decide, and EnvironmentFault where a compiler cannot be run
    or the cache cannot be written.
    """
    started = time.monotonic()
    of_sources(request)
    flags.links(request.extra_ldflags)
    made = _Build(toolchain, request, gpu, cache, timeout_s)
    try:
        built = kept(cache / made.key, timeout_s * 2, made.library)
    except OSError as error:
        raise EnvironmentFault(f"cannot build in {cache}: {error}") from error
    return built.model_copy(update={"seconds": round(time.monotonic() - started, 3)})


class _Build:
    def __init__(
        self, toolchain: GpuToolchain, request: BuildRequest, gpu: Gpu, cache: Path, timeout_s: float
    ) -> None:
        self._toolchain, self._request, self._cache, self._timeout_s = toolchain, request, cache, timeout_s
        prelude = ("-include", str(toolchain.prelude("host")))
        given = (*toolchain.host_flags, *flags.host(request.extra_cflags), *prelude)
        self._main = Unit(name="main", text=main_unit(request), flags=given)
        self._text = _device_text(request)
        number = flags.architecture(request.extra_cuda_cflags, request.candidate_source, gpu)
        self._device_flags = [
            f"-gencode=arch=compute_{number},code=sm_{number}",
            *device_unit.OF_TORCH,
            *flags.device(request.extra_cuda_cflags),
        ]
        self.key = digest(self._device_key(full=True), self._main.identity)[:32]

    def library(self, scratch: Path) -> Built:
        """Built in `scratch`. Raises Doubt."""
        if self._text is None or _BINDING.search(self._request.cuda):
            return self._built(scratch, full=True)
        try:
            return self._built(scratch, full=False)
        except _Gap:
            return self._built(scratch, full=True)

    def _built(self, scratch: Path, *, full: bool) -> Built:
        key = self._device_key(full=full)
        compilation = Compilation(self._toolchain, [self._main], scratch, self._cache)
        said = objects.cached_file(self._cache, key, _OBJECT, scratch) if self._text else None
        commands = compilation.commands()
        beside = [self._nvcc(scratch, full=full)] if self._text and said is None else []
        ran = self._run([*commands, *beside], scratch)
        [host] = compilation.outcomes(ran[: len(commands)])
        verdict = nvcc.Verdict.model_validate_json(said) if said else nvcc.Verdict(accepted=True)
        if beside:
            verdict = self._verdict(ran[-1], scratch, key)
        messages = compiler.parse(host.messages)
        built = Built(
            library=None,
            seconds=0,
            lane=LANE,
            warnings=tuple(dict.fromkeys((*build_findings.warnings(messages), *verdict.warnings))),
            kernels=verdict.kernels,
            findings=verdict.findings or self._of_host(host, messages),
        )
        if built.findings:
            words = "\n".join(finding.evidence or finding.message for finding in built.findings)
            return built.model_copy(update={"log": words[:_LOG_CHARACTERS]})
        return built.model_copy(update={"library": self._linked(scratch)})

    def _device_key(self, *, full: bool) -> str:
        headers = "full" if full else "declared"
        return digest(self._toolchain.key, LANE, headers, *self._device_flags, self._text or "")[:32]

    def _nvcc(self, scratch: Path, *, full: bool) -> list[str]:
        assert self._text is not None
        declared = [] if full else ["-isystem", str(self._toolchain.device_headers)]
        (scratch / _SOURCE).write_text(self._text, encoding="utf-8", errors="surrogatepass")
        return [
            str(self._toolchain.nvcc.path), "-c", STANDARD, *self._device_flags, "-Xptxas=-v",
            "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-gnu-unique",
            "-ccbin", str(self._toolchain.gxx), "-allow-unsupported-compiler",
            *declared, "-isystem", str(self._toolchain.headers), _SOURCE, "-o", _OBJECT,
        ]  # fmt: skip

    def _verdict(self, outcome: compiler.Outcome, scratch: Path, key: str) -> nvcc.Verdict:
        found = nvcc.read(outcome, self._request, scratch)
        if found.gap is not None:
            raise _Gap(f"its headers and NVIDIA's compiler do not agree: {found.gap}")
        if found.accepted:
            objects.keep_file(self._cache, key, scratch / _OBJECT, found.model_dump_json())
        return found

    def _of_host(self, outcome: compiler.Outcome, messages: list[compiler.Message]) -> tuple[Finding, ...]:
        if outcome.succeeded:
            return ()
        found = build_findings.of_messages(messages, self._request, self._toolchain)
        if not found or found[0].kind not in _CERTAIN:
            why = found[0].message if found else outcome.failure or "no message"
            raise Doubt(f"cpp_sources do not compile against its headers: {why}")
        return tuple(finding for finding in found if finding.kind in _CERTAIN)

    def _linked(self, scratch: Path) -> Path:
        made = scratch / "extension.so"
        objects_made = ["main.o", *([_OBJECT] if self._text else [])]
        [linked] = self._run(
            [
                [
                    str(self._toolchain.gxx), "-shared", *objects_made, str(self._toolchain.host_object),
                    str(self._toolchain.cudart), "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,--demangle",
                    "-o", made.name,
                ]
            ],
            scratch,
        )  # fmt: skip
        if not linked.succeeded:
            found = build_findings.of_link(linked.messages, self._request)
            raise _Gap(f"it does not link: {found[0].message}")
        return made

    def _run(self, commands: list[list[str]], scratch: Path) -> list[compiler.Outcome]:
        return compiler.run(commands, scratch, self._timeout_s, self._toolchain.visible)


def _device_text(request: BuildRequest) -> str | None:
    if not request.cuda.strip():
        return None
    text = device_unit.text(request)
    return f"#include <string>\n{text}" if _ANSWERS_TEXT.search(request.cuda) else text
