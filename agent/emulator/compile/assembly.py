"""One build: compile units alongside NVIDIA's check, weigh both results, and link a library.

Device code has three routes. `rewritten`: g++ compiles the candidate's rewritten source. `switched`: as
`rewritten`, but unchecked launches run kernels translated from NVIDIA's PTX, and kernels without a
translation run from the source. `stubbed`: all kernels come from the PTX.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.build import compile_findings, compiler, flags, nvcc
from agent.build.build_request import BuildRequest, main_unit
from agent.build.objects import Compilation, Unit
from agent.build.outcome import Built
from agent.build.toolchain import Toolchain
from agent.emulator.compile import device_check, ptx_build
from agent.emulator.compile.toolchain import LINK_CHECKS
from agent.emulator.frontend.device_unit import cuda_unit
from agent.emulator.ptx import Untranslated
from agent.records import Finding

Route = Literal["rewritten", "switched", "stubbed"]

_LOG_CHARACTERS = 20_000


@dataclass(frozen=True)
class Workshop:
    """Toolchain, cache and time limit that all builds of a user share."""

    toolchain: Toolchain
    cache: Path
    timeout_s: float

    def run(self, commands: list[list[str]], scratch: Path) -> list[compiler.Outcome]:
        """Run all commands in parallel; they see the toolchain's files and write to `scratch`."""
        return compiler.run(commands, scratch, self.timeout_s, self.toolchain.visible)


def units(toolchain: Toolchain, request: BuildRequest, route: Route) -> list[Unit]:
    """Return the units that g++ compiles before the PTX exists.

    Raise rewrite.RewriteError, or Untranslated if the route is `stubbed`.
    """
    found = [_unit(toolchain, "host", "main", main_unit(request), request.extra_cflags)]
    if request.cuda_sources:
        text = {"switched": ptx_build.switched_unit, "stubbed": ptx_build.stubbed_unit}.get(route, cuda_unit)
        found.append(_unit(toolchain, "device", "cuda", text(request), request.extra_cuda_cflags))
    return found


def _unit(toolchain: Toolchain, kind: str, name: str, text: str, given: tuple[str, ...]) -> Unit:
    chosen = toolchain.device_flags if kind == "device" else toolchain.host_flags
    prelude = ("-include", str(toolchain.prelude(kind)))
    arithmetic = flags.of_arithmetic(given) if kind == "device" else []
    return Unit(name=name, text=text, flags=(*chosen, *flags.effective(given)[0], *arithmetic, *prelude))


class Assembly:
    """Build of one request by one route, in its own scratch directory."""

    def __init__(
        self, workshop: Workshop, request: BuildRequest, units: Sequence[Unit], route: Route, scratch: Path
    ) -> None:
        self._workshop, self._request, self._units = workshop, request, units
        self._route, self._scratch = route, scratch

    def library(self) -> Built:
        """Build the library in the scratch directory. Raise Untranslated only if the route is `stubbed`."""
        started = time.monotonic()
        built = self._built()
        return built.model_copy(update={"seconds": round(time.monotonic() - started, 3)})

    def _built(self) -> Built:
        check = device_check.DeviceCheck(
            self._workshop.toolchain, self._request, self._scratch, self._workshop.cache
        )
        outcomes, ran = self._compiled(self._units, check.commands())
        succeeded = all(outcome.succeeded for outcome in outcomes)
        has_ptx = check.has_ptx(ran, self._workshop.timeout_s, retry=succeeded)
        translated = self._translated() if succeeded and has_ptx and self._route != "rewritten" else None
        units = [translated] if isinstance(translated, Unit) else []
        of_ptx, ran = self._compiled(units, check.assembling())
        verdict = check.verdict(ran)
        messages = [message for outcome in outcomes for message in compiler.parse(outcome.messages)]
        seen = Built(
            library=None,
            seconds=0,
            warnings=tuple(dict.fromkeys((*compile_findings.warnings(messages), *verdict.warnings))),
            kernels=verdict.kernels,
            notes=device_check.notes(self._request, verdict),
            log=compile_findings.clean("\n".join(outcome.messages for outcome in outcomes))[:_LOG_CHARACTERS],
        )
        if not succeeded:
            found = compile_findings.of_messages(messages, self._request, self._workshop.toolchain)
            found = self._stopped(outcomes) or device_check.weighed(found, verdict, self._request)
            return _failed(found, seen)
        if verdict.findings:
            words = "\n".join(finding.evidence or finding.message for finding in verdict.findings)
            return _failed(verdict.findings, _logged(seen, words))
        if self._route == "stubbed" and not verdict.accepted:
            raise Untranslated(f"nvcc did not take the device code: {verdict.gap or nvcc.MISSING}")
        if translated is None or not verdict.accepted:
            return self._linked(seen)
        return self._from_ptx(seen, translated, of_ptx)

    def _compiled(
        self, units: Sequence[Unit], beside: list[list[str]]
    ) -> tuple[list[compiler.Outcome], list[compiler.Outcome]]:
        """Return the outcomes of the units, and of the commands that run alongside."""
        work = self._workshop
        compilation = Compilation(work.toolchain, units, self._scratch, work.cache)
        commands = compilation.commands()
        ran = work.run([*commands, *beside], self._scratch)
        return compilation.outcomes(ran[: len(commands)]), ran[len(commands) :]

    def _translated(self) -> Unit | Untranslated:
        """Return the unit of kernels translated from the PTX, or the reason why no unit can be made."""
        alone = self._route == "stubbed"
        work = self._workshop
        try:
            return ptx_build.translated_unit(work.toolchain, self._request, self._scratch, alone=alone)
        except Untranslated as error:
            return error

    def _from_ptx(
        self, seen: Built, unit: Unit | Untranslated, outcomes: Sequence[compiler.Outcome]
    ) -> Built:
        """Link with the kernels of the PTX; on failure fall back to kernels compiled from the source, if any.

        Raise Untranslated if the route is `stubbed` and the kernels cannot come from the PTX.
        """
        alone = self._route == "stubbed"
        try:
            if isinstance(unit, Untranslated):
                raise unit
            if not outcomes[0].succeeded:
                raise Untranslated(f"the translation did not compile: {_first_error(outcomes[0])}")
            built = self._linked(seen.model_copy(update={"backend": ptx_build.BACKEND}), unit.name)
            if built.library is not None or alone:
                return built
            reason = "its kernels and the host's code do not link"
        except Untranslated as error:
            if alone:
                raise
            reason = str(error)
        note = f"kernels ran from the rewritten source only, not from NVIDIA's code: {reason}"
        return self._linked(seen.model_copy(update={"notes": (*seen.notes, note)}))

    def _linked(self, seen: Built, *more: str) -> Built:
        made = self._scratch / "extension.so"
        command = _link(self._workshop.toolchain, [*(unit.name for unit in self._units), *more], made)
        [linked] = self._workshop.run([command], self._scratch)
        if linked.succeeded:
            return seen.model_copy(update={"library": made})
        found = compile_findings.of_link(linked.messages, self._request, self._workshop.toolchain)
        return _failed(
            self._stopped([linked]) or found, _logged(seen, compile_findings.clean(linked.messages))
        )

    def _stopped(self, outcomes: Sequence[compiler.Outcome]) -> tuple[Finding, ...]:
        if any(outcome.failure == "timeout" for outcome in outcomes):
            message = f"Compiling took longer than {self._workshop.timeout_s:g} s and was stopped."
            return (Finding(kind="build-timeout", message=message),)
        return ()


def _logged(seen: Built, words: str) -> Built:
    return seen.model_copy(update={"log": f"{seen.log}\n{words}".strip()[:_LOG_CHARACTERS]})


def _failed(found: tuple[Finding, ...], seen: Built) -> Built:
    crash = Finding(kind="compile-error", message="The compiler failed without a message.")
    findings = found or (crash.model_copy(update={"evidence": seen.log[:2000] or None}),)
    unsupported = findings[0].kind == "header-gap"
    return seen.model_copy(update={"findings": findings, "unsupported": unsupported})


def _link(toolchain: Toolchain, objects: Sequence[str], made: Path) -> list[str]:
    # -z defs: undefined symbols, which torch would report at import, are link errors here.
    return [
        str(toolchain.gxx), "-shared", *(f"{name}.o" for name in objects), str(toolchain.host_object),
        str(toolchain.runtime), "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,--no-undefined", "-Wl,--demangle",
        LINK_CHECKS, "-o", str(made),
    ]  # fmt: skip


def _first_error(outcome: compiler.Outcome) -> str:
    errors = [message.text for message in compiler.parse(outcome.messages) if message.severity == "error"]
    return compile_findings.clean(errors[0]) if errors else outcome.failure or "no message"
