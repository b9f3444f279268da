"""Run the corpus driver and serve its build requests; shared by the corpus tests."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import agent.emulator
from agent.build.build_request import BuildRequest
from agent.build.toolchain import Toolchain, default_cache
from agent.emulator.compile import symbolize
from agent.emulator.compile.assembly import Workshop
from agent.emulator.compile.build import Built, by_route, extension

CORPUS = Path(__file__).parent / "emulator" / "corpus"
# The regular cache, keyed by content: a second run builds nothing.
BUILDS = default_cache() / "builds"


@dataclass
class Outcome:
    """Output of the driver: results by program or kernel, printed text, and the error if any."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    printed: str = ""
    failed: str = ""
    libraries: list[Path] = field(default_factory=list)
    refusals: list[dict[str, Any]] = field(default_factory=list)
    """Findings of the last failed build, in the format of the runtime's findings."""
    running: str = ""
    """Kernel that started last, which is to blame if the process dies."""


def run(toolchain: Toolchain, place: Path, task: dict[str, Any], limit_s: float) -> Outcome:
    """Run the whole task in one driver process, which is killed after `limit_s` seconds without a message."""
    emulator = Path(agent.emulator.__file__).parent
    shutil.copytree(
        emulator.parent / "torch_shim",
        place / "torch_shim",
        ignore=shutil.ignore_patterns("__pycache__"),
        dirs_exist_ok=True,
    )
    command = [
        sys.executable,
        "-I",
        str(CORPUS / "driver.py"),
        str(place),
        str(toolchain.runtime),
        json.dumps(task),
    ]
    outcome = Outcome()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place, start_new_session=True
    ) as process:
        try:
            _serve(process, Builder(toolchain, task.get("from_ptx", False)), outcome, limit_s)
            process.wait(limit_s)
        finally:
            process.kill()
    if process.returncode and not outcome.failed:
        outcome.failed = f"the process ended with {process.returncode} in {outcome.running or 'its start'}"
    return outcome


def _messages(process: subprocess.Popen[str], limit_s: float) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    while True:
        watchdog = threading.Timer(limit_s, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        try:
            line = process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            return
        yield json.loads(line)


@dataclass(frozen=True)
class Builder:
    """Builder of extensions, as for a candidate or with kernels from PTX only."""

    toolchain: Toolchain
    from_ptx: bool

    def built(self, request: BuildRequest) -> Built:
        if self.from_ptx and request.cuda.strip():
            return by_route(Workshop(self.toolchain, BUILDS, 120), request, "stubbed")
        return extension(self.toolchain, request, BUILDS)


def _serve(process: subprocess.Popen[str], builder: Builder, outcome: Outcome, limit_s: float) -> None:
    assert process.stdin is not None
    for message in _messages(process, limit_s):
        if "build" in message:
            process.stdin.write(json.dumps(_built(message, builder, outcome)) + "\n")
            process.stdin.flush()
        elif "begin" in message:
            outcome.running = message["begin"]
        elif "result" in message:
            result = message["result"]
            if result.get("refused"):
                result["findings"] = outcome.refusals
            else:
                result["findings"] = symbolize.resolve(result["findings"], outcome.libraries)
            outcome.results[outcome.running] = result
        elif "error" in message:
            outcome.failed = message["error"]
        else:
            outcome.printed = message["done"]
            return


def _built(message: dict[str, Any], builder: Builder, outcome: Outcome) -> dict[str, str]:
    text = Path(message["program"]).read_text()
    # Wrap a bare .cu file in a program that keeps the file's line numbers.
    candidate = text if message["program"].endswith(".py") else f'cuda = r"""{text}"""'
    request = BuildRequest(**message["build"], candidate_source=candidate)
    built = builder.built(request)
    if built.library is None:
        outcome.refusals = [
            {**found.model_dump(), **(found.location.model_dump() if found.location else {"line": None})}
            for found in built.findings
        ]
        return {"error": "\n".join(f"{f.location}: {f.message}" for f in built.findings)}
    outcome.libraries.append(built.library)
    return {"library": str(built.library)}
