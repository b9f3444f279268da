"""`agent doctor`: report what this machine can do and how to fix what is missing."""

import runpy
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import typer
from rich.text import Text

from agent import config, sandbox
from agent.cli import columns, console
from agent.config import Settings
from agent.errors import AgentError

SPACE_NEEDED_BYTES = 2 << 30


class Check(NamedTuple):
    """One line of the report. `mend` says how to fix what is missing."""

    name: str
    state: Literal["ok", "missing", "note"]
    found: str
    mend: str = ""


def doctor(
    json: console.Json = False, verbose: console.Verbose = False, quiet: console.Quiet = False
) -> None:
    """Check Python, torch, CUDA, g++, GPU, sandbox, endpoint and disk, and say how to fix what is missing.

    Exits 0 if candidates can be judged here, on a GPU or on the emulator, otherwise 3.
    """
    settings = config.load({}).settings
    checks = []
    with console.live("checking this machine") as live:
        for check in _checks(settings):
            live.update(f"checked {check.name}")
            checks.append(check)
    usable = not any(check.state == "missing" for check in checks)
    if json:
        console.emit_json({"usable": usable, "checks": [check._asdict() for check in checks]})
    else:
        console.show(*map(_line, checks))
    raise typer.Exit(0 if usable else 3)


def _checks(settings: Settings) -> Iterator[Check]:
    yield Check("python", "ok", sys.version.split()[0])
    yield from _torch()
    yield from _compilers(settings)
    yield _sandbox()
    yield _endpoint(settings)
    yield _disk(settings)


def _torch() -> Iterator[Check]:
    found = find_spec("torch")
    if found is None or found.origin is None:
        yield Check("torch", "missing", "not installed", "pip install torch")
        return
    # Run only torch's version file, because importing torch takes seconds.
    said = runpy.run_path(str(Path(found.origin).with_name("version.py")))
    yield Check("torch", "ok", str(said.get("__version__")))
    cuda = said.get("cuda")
    yield Check(
        "cuda", "ok" if cuda else "note", str(cuda) if cuda else "this torch is a CPU build",
        "" if cuda else "only --executor cuda needs one: install a CUDA build of torch",
    )  # fmt: skip


def _compilers(settings: Settings) -> Iterator[Check]:
    from agent.emulator.compile import toolchain
    from agent.executors import cuda_obstacle, gpu_name, nvcc

    gpu, compiler, obstacle = gpu_name(), nvcc(), cuda_obstacle()
    yield Check(
        "gpu", "ok" if gpu else "note", gpu or "none", "" if gpu else "--executor emulator works without one"
    )
    yield Check(
        "nvcc", "ok" if compiler else "note", str(compiler or "none"),
        "" if compiler else "only --executor cuda needs it: install the CUDA toolkit",
    )  # fmt: skip
    try:
        ready = toolchain.prepare(settings.cache_dir)
        yield Check("g++", "ok", ready.gxx_version)
        yield Check("emulator", "ok", f"prepared, with CUDA headers {ready.cuda_version}")
        yield _device_check()
    except AgentError as error:
        yield Check("emulator", "note" if obstacle is None else "missing", "not usable", str(error))


def _device_check() -> Check:
    from agent.build import nvcc

    found = nvcc.find()
    if found is None:
        mend = "install the extra kernelwright[nvcc], or the CUDA toolkit"
        return Check("device", "note", "kernels are not checked by NVIDIA's compiler", mend)
    return Check("device", "ok", f"kernels are checked by nvcc {found.version}")


def _sandbox() -> Check:
    level = sandbox.strongest()
    gaps = [gap.removeprefix("isolation: ") for gap in level.gaps]
    if level.name == "process":
        return Check("sandbox", "note", f"plain process: {', '.join(gaps)}", sandbox.MEND)
    return Check("sandbox", "ok", ", ".join([level.name, *gaps]))


def _endpoint(settings: Settings) -> Check:
    from agent.providers import endpoint_settings
    from agent.providers.choice import has_endpoint

    if settings.provider and settings.provider.startswith(("command:", "mailbox:")):
        return _without_endpoint(settings.provider)
    if not has_endpoint(settings):
        return Check(
            "endpoint",
            "note",
            "none configured; shipped kernels answer, or composed ones",
            "set OPENAI_API_KEY or OPENAI_BASE_URL",
        )
    from agent.providers.openai_compat import list_models

    try:
        asked = endpoint_settings(settings)
        models = list_models(asked)
    except AgentError as error:
        return Check("endpoint", "note", "does not answer", str(error))
    listed = ", ".join(models[:6]) + (", ..." if len(models) > 6 else "")
    return Check("endpoint", "ok", f"{asked.where} offers {listed or 'no model'}")


def _without_endpoint(provider: str) -> Check:
    """Check a provider that needs no endpoint. A program is looked up but not started."""
    from agent.providers.command import words

    kind, _, argument = provider.partition(":")
    try:
        found = words(argument)[0] if kind == "command" else argument
    except AgentError as error:
        return Check("endpoint", "note", "the program that is to answer is not there", str(error))
    return Check("endpoint", "ok", f"none needed: answers come from {kind} {found}")


def _disk(settings: Settings) -> Check:
    place = settings.runs_dir.absolute()
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(place).free
    found = f"{free / 2**30:.1f} GB free for runs in {settings.runs_dir}"
    if free < SPACE_NEEDED_BYTES:
        return Check("disk", "note", found, "free some space, or set --runs-dir to another disk")
    return Check("disk", "ok", found)


def _line(check: Check) -> Text:
    style = {"ok": "green", "missing": "red", "note": "yellow"}[check.state]
    begun = f"{check.name:<9} {check.state:<8}"
    words = "; ".join(console.line(part) for part in (check.found, check.mend) if part)
    folded = columns.folded(begun + words, console.stdout().width, " " * len(begun))
    text = Text("\n".join(folded))
    text.stylize(style, 10, len(begun))
    return text
