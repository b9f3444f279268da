"""Build against torch's own headers, for code that the slim torch headers do not cover.

All units of the request are built this way, because slim tensors and torch's own cannot mix in one
extension. The build takes about ten times as long as a slim one. An error here is the candidate's fault,
except for CUDA names that the emulator lacks and parts of torch that only a CUDA build has.
"""

import re
import time
from collections.abc import Sequence
from pathlib import Path

from agent.build import compile_findings, compiler, flags, header_gap
from agent.build.build_request import BuildRequest, main_unit
from agent.build.objects import Compilation, Unit
from agent.build.outcome import Built, kept
from agent.build.toolchain import Progress
from agent.emulator.compile import device_check, full_headers
from agent.emulator.compile.assembly import Workshop
from agent.emulator.compile.full_headers import FullToolchain
from agent.emulator.compile.toolchain import LINK_CHECKS
from agent.emulator.frontend.device_unit import cuda_unit
from agent.records import Finding, digest

BACKEND = "emulator-full"
_LOG_CHARACTERS = 20_000
_OF_PYTHON = re.compile(r"undefined references? to `_?Py")


def instead(
    slim: Built, workshop: Workshop, request: BuildRequest, progress: Progress | None = None
) -> Built:
    """Build with torch's own headers if `slim` failed because its headers lack a name of torch.

    Return `slim` unchanged for any other result, and with a note if torch's headers are unavailable. A note
    on the full build gives the missing name. Raise OSError and EnvironmentFault as the slim build does.
    """
    gap = next((finding for finding in slim.findings if finding.kind == "header-gap"), None)
    if (
        gap is None
        or gap is not slim.findings[0]
        or not header_gap.is_of_torch(gap, workshop.toolchain.cuda_include)
    ):
        return slim
    try:
        full = full_headers.prepare(workshop.toolchain, progress)
    except full_headers.Unavailable as error:
        note = f"torch's own headers were not tried: {error}"
        return slim.model_copy(update={"notes": (*slim.notes, note)})
    built = _cached(full, workshop, request)
    lacking = gap.message.partition(" lack ")[2].partition(";")[0] or gap.message
    where = f" (line {gap.location.line})" if gap.location and gap.location.line else ""
    note = f"built against torch's own headers: the emulator's slim ones lack {lacking}{where}"
    return built.model_copy(update={"notes": (*built.notes, note)})


def _cached(full: FullToolchain, workshop: Workshop, request: BuildRequest) -> Built:
    units = _units(full, request)
    parts = (device_check.key(request), *(unit.identity for unit in units))
    place = workshop.cache / digest(full.key, *parts)[:32]
    return kept(
        place, workshop.timeout_s * 2, lambda scratch: _Build(full, workshop, request, scratch).of(units)
    )


def _units(full: FullToolchain, request: BuildRequest) -> list[Unit]:
    given = (*full.unit_flags("host"), *flags.effective(request.extra_cflags)[0])
    units = [Unit(name="main", text=main_unit(request), flags=given)]
    if request.cuda_sources:
        device = request.extra_cuda_cflags
        given = (*full.unit_flags("device"), *flags.effective(device)[0], *flags.of_arithmetic(device))
        units.append(Unit(name="cuda", text=cuda_unit(request), flags=given))
    return units


class _Build:
    """Build of one request against torch's own headers, in its own scratch directory."""

    def __init__(self, full: FullToolchain, workshop: Workshop, request: BuildRequest, scratch: Path) -> None:
        self._full, self._workshop = full, workshop
        self._request, self._scratch = request, scratch

    def of(self, units: Sequence[Unit]) -> Built:
        started = time.monotonic()
        work = self._workshop
        verdict = device_check.alone(work.toolchain, self._request, work.cache, work.timeout_s)
        compilation = Compilation(self._full, units, self._scratch, work.cache)
        outcomes = compilation.outcomes(self._run(compilation.commands()))
        messages = [message for outcome in outcomes for message in compiler.parse(outcome.messages)]
        built = Built(
            library=None,
            seconds=0,
            backend=BACKEND,
            warnings=tuple(dict.fromkeys((*compile_findings.warnings(messages), *verdict.warnings))),
            kernels=verdict.kernels,
            notes=device_check.notes(self._request, verdict),
            log=compile_findings.clean("\n".join(outcome.messages for outcome in outcomes))[:_LOG_CHARACTERS],
        )
        found = verdict.findings
        if not all(outcome.succeeded for outcome in outcomes):
            named = self._named(compile_findings.of_messages(messages, self._request))
            crash = Finding(kind="compile-error", message="The compiler failed without a message.")
            found = self._stopped(outcomes) or device_check.weighed(named, verdict, self._request) or (crash,)
        if not found:
            library, found = self._linked(units)
            built = built.model_copy(update={"library": library})
        unsupported = bool(found) and found[0].kind == "header-gap"
        seconds = round(time.monotonic() - started, 3)
        return built.model_copy(update={"findings": found, "unsupported": unsupported, "seconds": seconds})

    def _named(self, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Replace findings by header gaps for names that a GPU's torch or CUDA has and this machine lacks."""
        gaps = [header_gap.beyond_torch(finding, self._full.cuda_include) for finding in found]
        return tuple(gap or finding for gap, finding in zip(gaps, found, strict=True))

    def _linked(self, units: Sequence[Unit]) -> tuple[Path | None, tuple[Finding, ...]]:
        made = self._scratch / "extension.so"
        # Undefined symbols are only warnings, because Python's symbols exist only in its process.
        command = [
            str(self._full.gxx), "-shared", *(f"{unit.name}.o" for unit in units), str(self._full.bridge),
            str(self._full.runtime), *self._full.libraries(), "-Wl,-z,defs", "-Wl,--warn-unresolved-symbols",
            "-Wl,--demangle", LINK_CHECKS, "-o", str(made),
        ]  # fmt: skip
        [linked] = self._run([command])
        words = "\n".join(line for line in linked.messages.splitlines() if not _OF_PYTHON.search(line))
        if linked.succeeded and "undefined reference" not in words:
            return made, ()
        found = self._stopped([linked]) or compile_findings.of_link(words, self._request)
        return None, self._named(found)

    def _run(self, commands: list[list[str]]) -> list[compiler.Outcome]:
        return compiler.run(commands, self._scratch, self._workshop.timeout_s, self._full.visible)

    def _stopped(self, outcomes: Sequence[compiler.Outcome]) -> tuple[Finding, ...]:
        if any(outcome.failure == "timeout" for outcome in outcomes):
            message = f"Compiling took longer than {self._workshop.timeout_s:g} s and was stopped."
            return (Finding(kind="build-timeout", message=message),)
        return ()
