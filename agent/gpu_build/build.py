"""Fast build of a load_inline request for a real GPU: two translation units in parallel, then a link.

Objects are cached by their inputs, so a change of device code recompiles only the device unit. An error that
NVIDIA's compiler finds in device code is the candidate's fault. Any other error may come from a gap in the
slim headers and raises Doubt.
"""

import time
from pathlib import Path

from agent.build import compile_findings, compiler, nvcc, objects, program
from agent.build.build_request import BuildRequest, main_unit
from agent.build.objects import Compilation, Unit
from agent.build.outcome import Built, kept
from agent.errors import EnvironmentFault
from agent.gpu_build import flags
from agent.gpu_build.device import OBJECT, DeviceUnit
from agent.gpu_build.doubt import Doubt, of_sources
from agent.gpu_build.gpu import Gpu
from agent.gpu_build.toolchain import GpuToolchain
from agent.records import Finding, digest

BACKEND = "gpu-slim"
_LOG_CHARACTERS = 20_000
_CERTAIN = ("missing-declaration", "extern-c")
"""Kinds of findings in cpp_sources that do not depend on the headers."""


class _Gap(Doubt):
    """Exception raised if headers are not enough for the device unit; the full headers may be."""


def extension(
    toolchain: GpuToolchain, request: BuildRequest, gpu: Gpu, cache: Path, timeout_s: float
) -> Built:
    """Return the library for `request`, from `cache` if it was built before, or its findings.

    Raises Doubt if stock `load_inline` has to decide. Raises EnvironmentFault if a compiler cannot be run or
    the cache cannot be written.
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
        self._device = DeviceUnit(toolchain, request, gpu) if request.cuda.strip() else None
        of_device = self._device.key(full=True) if self._device else "no device code"
        self.key = digest(BACKEND, of_device, self._main.identity)[:32]

    def library(self, scratch: Path) -> Built:
        """Build in `scratch` with the declared headers, or with the full ones if these do not suffice.

        Raises Doubt.
        """
        if self._device is not None and self._device.may_be_declared:
            try:
                return self._built(scratch, full=False)
            except _Gap:
                pass
        return self._built(scratch, full=True)

    def _built(self, scratch: Path, *, full: bool) -> Built:
        compilation = Compilation(self._toolchain, [self._main], scratch, self._cache)
        verdict = self._cached_verdict(scratch, full=full)
        beside = [self._device.command(scratch, full=full)] if self._device and verdict is None else []
        commands = compilation.commands()
        ran = self._run([*commands, *beside], scratch)
        [host] = compilation.outcomes(ran[: len(commands)])
        if verdict is None:
            verdict = self._verdict(ran[-1], scratch, full=full)
        messages = compiler.parse(host.messages)
        built = Built(
            library=None,
            seconds=0,
            backend=BACKEND,
            warnings=tuple(dict.fromkeys((*compile_findings.warnings(messages), *verdict.warnings))),
            kernels=verdict.kernels,
            program=program.of_request(self._request, verdict.program),
            findings=verdict.findings or self._of_host(host, messages),
        )
        if built.findings:
            words = "\n".join(finding.evidence or finding.message for finding in built.findings)
            return built.model_copy(update={"log": words[:_LOG_CHARACTERS]})
        return built.model_copy(update={"library": self._linked(scratch)})

    def _cached_verdict(self, scratch: Path, *, full: bool) -> nvcc.Verdict | None:
        """Copy a cached device object into `scratch` and return nvcc's verdict, or None if not cached."""
        if self._device is None:
            return nvcc.Verdict(accepted=True)
        said = objects.cached_file(self._cache, self._device.key(full=full), OBJECT, scratch)
        return nvcc.Verdict.model_validate_json(said) if said is not None else None

    def _verdict(self, outcome: compiler.Outcome, scratch: Path, *, full: bool) -> nvcc.Verdict:
        found = nvcc.read(outcome, self._request, scratch)
        if found.gap is not None or not (found.accepted or full):
            raise _Gap(f"its headers and NVIDIA's compiler do not agree: {found.gap}")
        if found.accepted and self._device is not None:
            found = found.model_copy(update={"program": program.of_device(scratch)})
            key = self._device.key(full=full)
            objects.keep_file(self._cache, key, scratch / OBJECT, found.model_dump_json())
        return found

    def _of_host(self, outcome: compiler.Outcome, messages: list[compiler.Message]) -> tuple[Finding, ...]:
        if outcome.succeeded:
            return ()
        found = compile_findings.of_messages(messages, self._request, self._toolchain)
        if not found or found[0].kind not in _CERTAIN:
            why = found[0].message if found else outcome.failure or "no message"
            raise Doubt(f"cpp_sources do not compile against its headers: {why}")
        return tuple(finding for finding in found if finding.kind in _CERTAIN)

    def _linked(self, scratch: Path) -> Path:
        made = scratch / "extension.so"
        objects_made = ["main.o", *([OBJECT] if self._device else [])]
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
            found = compile_findings.of_link(linked.messages, self._request)
            raise _Gap(f"it does not link: {found[0].message}")
        return made

    def _run(self, commands: list[list[str]], scratch: Path) -> list[compiler.Outcome]:
        return compiler.run(commands, scratch, self._timeout_s, self._toolchain.visible)
