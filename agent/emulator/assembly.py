"""One build: units compiled beside NVIDIA's check of them, weighed, and linked to a library."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.emulator import build_findings, compiler, device_check, flags
from agent.emulator.built import Built
from agent.emulator.objects import Compilation, Unit
from agent.emulator.toolchain import LINK_CHECKS, Toolchain
from agent.emulator.units import BuildRequest
from agent.records import Finding

_LOG_CHARACTERS = 20_000


@dataclass(frozen=True)
class Workshop:
    """What every build of a user shares."""

    toolchain: Toolchain
    cache: Path
    timeout_s: float

    def run(self, commands: list[list[str]], scratch: Path) -> list[compiler.Outcome]:
        """All at the same time; they see what the toolchain needs and write in `scratch`."""
        return compiler.run(commands, scratch, self.timeout_s, self.toolchain.visible)


def unit(toolchain: Toolchain, request: BuildRequest, name: str, text: str) -> Unit:
    """The unit `main` (the host's) or `cuda`, with the candidate's flags for it."""
    kind, given = ("device", request.extra_cuda_cflags) if name == "cuda" else ("host", request.extra_cflags)
    chosen = toolchain.device_flags if kind == "device" else toolchain.host_flags
    prelude = ("-include", str(toolchain.prelude(kind)))
    return Unit(name=name, text=text, flags=(*chosen, *flags.effective(given)[0], *prelude))


def library(workshop: Workshop, request: BuildRequest, units: Sequence[Unit], scratch: Path) -> Built:
    """Builds in `scratch`, where the library lies then."""
    started = time.monotonic()
    compilation = Compilation(workshop.toolchain, units, scratch, workshop.cache)
    check = device_check.DeviceCheck(workshop.toolchain, request, scratch, workshop.cache)
    commands = compilation.commands()
    ran = workshop.run([*commands, *check.commands()], scratch)
    outcomes = compilation.outcomes(ran[: len(commands)])
    succeeded = all(outcome.succeeded for outcome in outcomes)
    verdict = check.verdict(ran[len(commands) :], workshop.timeout_s, retry=succeeded)
    messages = [message for outcome in outcomes for message in compiler.parse(outcome.messages)]
    seen = Built(
        library=None,
        seconds=0,
        warnings=tuple(dict.fromkeys((*build_findings.warnings(messages), *verdict.warnings))),
        kernels=verdict.kernels,
        notes=device_check.notes(request, verdict),
        log=build_findings.clean("\n".join(outcome.messages for outcome in outcomes))[:_LOG_CHARACTERS],
    )
    if not succeeded:
        found = build_findings.of_messages(messages, request, workshop.toolchain)
        found = _stopped(outcomes, workshop) or device_check.weighed(found, verdict, request)
        return _failed(found, started, seen)
    if verdict.findings:
        words = "\n".join(finding.evidence or finding.message for finding in verdict.findings)
        return _failed(verdict.findings, started, _logged(seen, words))
    made = scratch / "extension.so"
    [linked] = workshop.run([_link(workshop.toolchain, units, made)], scratch)
    if not linked.succeeded:
        found = build_findings.of_link(linked.messages, request, workshop.toolchain)
        found = _stopped([linked], workshop) or found
        return _failed(found, started, _logged(seen, build_findings.clean(linked.messages)))
    return seen.model_copy(update={"library": made, "seconds": round(time.monotonic() - started, 3)})


def _logged(seen: Built, words: str) -> Built:
    return seen.model_copy(update={"log": f"{seen.log}\n{words}".strip()[:_LOG_CHARACTERS]})


def _failed(found: tuple[Finding, ...], started: float, seen: Built) -> Built:
    crash = Finding(kind="compile-error", message="The compiler failed without a message.")
    findings = found or (crash.model_copy(update={"evidence": seen.log[:2000] or None}),)
    unsupported = findings[0].kind == "header-gap"
    seconds = round(time.monotonic() - started, 3)
    return seen.model_copy(update={"findings": findings, "unsupported": unsupported, "seconds": seconds})


def _link(toolchain: Toolchain, units: Sequence[Unit], made: Path) -> list[str]:
    # -z defs: what torch would meet as an undefined symbol at import is an error here.
    return [
        str(toolchain.gxx), "-shared", *(f"{unit.name}.o" for unit in units), str(toolchain.runtime),
        "-Wl,-z,defs", "-Wl,--no-undefined", "-Wl,--demangle", LINK_CHECKS, "-o", str(made),
    ]  # fmt: skip


def _stopped(outcomes: Sequence[compiler.Outcome], workshop: Workshop) -> tuple[Finding, ...]:
    if any(outcome.failure == "timeout" for outcome in outcomes):
        message = f"Compiling took longer than {workshop.timeout_s:g} s and was stopped."
        return (Finding(kind="build-timeout", message=message),)
    return ()
