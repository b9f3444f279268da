"""Preparation of the files that all builds for the emulator share, once per user.

The prepared directory holds the runtime library and precompiled headers for host code and device code. No
CUDA toolkit and no GPU is needed.
"""

import re
import shutil
from pathlib import Path

from agent.build import cuda_headers
from agent.build.toolchain import (
    CPP,
    RUNTIME_NAME,
    STANDARD,
    Progress,
    Toolchain,
    compiler_here,
    content_of,
    default_cache,
    make_once,
    run_steps,
)
from agent.emulator.compile import torch_memory
from agent.errors import EnvironmentFault
from agent.records import digest
from agent.torch_shim import c_abi

# torch compiles device code with these definitions, which allow half arithmetic by functions, not operators.
_TORCH_DEFINES = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)
# Hidden and non-unique symbols, because two extensions in one process must not share variables.
_COMMON = ("-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-Wno-attributes", "-Wno-unknown-pragmas")
# The compiler reports every access to the runtime (cpp/runtime/access.cpp), which checks it on request. No
# sanitizer library is linked. -g1 provides the line numbers of findings.
CHECKS = (
    "-fsanitize=thread,bounds,alignment",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=1",
    "-g1",
    "-gz=none",
    "-fno-plt",
)
# Integer overflow wraps around, as on a GPU.
_WRAP = "-fwrapv"
# The runtime wraps memcpy, memmove and memset, so that their accesses are reported too.
LINK_CHECKS = "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset"
_PRELUDES = {
    "host": '#include "kw/host.h"\n#include "kw/host_bind.h"\n',
    "device": '#include "kw/host.h"\n#include <cuda.h>\n#include <cuda_runtime.h>\n#include "kw/device.h"\n',
}


_SHARED = "".join(
    f"#include <{name}>\n"
    for name in ("algorithm", "cstdio", "cstdlib", "cstring", "map", "memory", "mutex", "string", "vector")
)


def prepare(
    cache: Path | None = None,
    *,
    cuda_home: Path | None = None,
    progress: Progress | None = None,
    checked: bool = True,
) -> Toolchain:
    """Return the toolchain and prepare its shared files unless they exist.

    Device code can be checked at run time unless `checked` is false, which makes it about twice as fast.
    `progress(step, i, n)` is called when step i of n begins, and only if there is work to do. Raise
    EnvironmentFault for a missing compiler or headers, a directory that cannot be written, or a failed
    preparation.
    """
    gxx, version = compiler_here()
    cuda_include = cuda_headers.directory(cuda_home)
    cuda_version = cuda_headers.version(cuda_include)
    architecture = _architecture()
    host = (STANDARD, "-O0", *_COMMON)
    # nvcc compiles device code without __OPTIMIZE__, which g++ defines when it optimises.
    optimised = "-O2", "-U__OPTIMIZE__"
    device = (STANDARD, *optimised, *architecture, "-fno-strict-aliasing", _WRAP, "-DKW_DEVICE_UNIT=1")
    device = (*device, *_TORCH_DEFINES, *_COMMON, *(CHECKS if checked else ()))
    flags = " ".join((*host, *device))
    content = _content()
    torch = torch_memory.headers()
    made_for = (version, cuda_version, torch_memory.version(torch))
    # The directory's layout depends on this module, so the key includes its text.
    layout = Path(__file__).read_text(encoding="utf-8")
    key = digest(layout, *made_for, flags, *_PRELUDES.values(), content)[:24]
    parent = (cache or default_cache()) / "emulator"
    toolchain = Toolchain(
        gxx=gxx,
        gxx_version=version,
        cuda_include=cuda_include,
        cuda_version=cuda_version,
        directory=parent / key,
        host_flags=host,
        device_flags=device,
    )

    def make() -> None:
        _make(toolchain, torch, progress)
        # This check keeps sources that changed meanwhile from being cached under the old sources' key.
        if _content() != content:
            raise EnvironmentFault("the emulator's sources changed while it was being prepared: run it again")

    make_once(toolchain.directory, make, progress)
    return toolchain


def _content() -> str:
    return "\n".join(content_of(CPP / part) for part in ("include", "runtime", "torch"))


def _make(toolchain: Toolchain, torch: Path | None, progress: Progress | None) -> None:
    shutil.copytree(CPP / "include", toolchain.headers)
    objects = toolchain.directory / "runtime"
    objects.mkdir()
    steps: list[tuple[str, list[list[str]]]] = [
        ("headers for device code", [_prelude_command(toolchain, "device", toolchain.device_flags)]),
        ("headers for the runtime", [_shared_command(toolchain, objects)]),
        ("headers for host code", [_prelude_command(toolchain, "host", toolchain.host_flags)]),
        ("library for host code", [_library_command(toolchain)]),
        ("emulator runtime", _runtime_commands(toolchain, objects)),
    ]
    if torch is not None:
        compiler = [str(toolchain.gxx), *torch_memory.options(torch), *toolchain.includes()]
        made = str(toolchain.directory / c_abi.TORCH_MEMORY)
        command = [*compiler, str(CPP / "torch" / "allocator.cpp"), "-lc10", "-o", made]
        steps.append(("memory of torch's tensors", [command]))
    run_steps(steps, progress)
    run_steps([("emulator runtime", [_linked_runtime(toolchain, objects)])], None)
    shutil.rmtree(objects)


def _shared_command(toolchain: Toolchain, objects: Path) -> list[str]:
    """Return the command that precompiles the headers shared by the runtime's sources.

    The precompiled header appears atomically. A source compiled before it exists gives the same object.
    """
    header = objects / "shared.h"
    header.write_text(_SHARED)
    compiler = [*_runtime_compiler(toolchain), "-x", "c++-header", str(header)]
    return ["/bin/sh", "-c", '"$@" -o "$0.part" && mv "$0.part" "$0"', f"{header}.gch", *compiler]


def _runtime_commands(toolchain: Toolchain, objects: Path) -> list[list[str]]:
    sources = sorted(path for path in (CPP / "runtime").iterdir() if path.suffix in (".cpp", ".S"))
    compiler = [*_runtime_compiler(toolchain), "-include", str(objects / "shared.h"), "-c"]
    return [
        [*(compiler if source.suffix == ".cpp" else [*_runtime_compiler(toolchain), "-c"]), str(source)]
        + ["-o", str(objects / f"{source.name}.o")]
        for source in sources
    ]


def _runtime_compiler(toolchain: Toolchain) -> list[str]:
    # Functions called before each access start at a cache line, so that their speed does not vary.
    flags = ("-std=c++17", "-O2", "-falign-functions=64", "-fPIC", "-pthread")
    return [str(toolchain.gxx), *flags, *toolchain.includes()]


def _linked_runtime(toolchain: Toolchain, objects: Path) -> list[str]:
    return [
        str(toolchain.gxx), "-shared", "-pthread", f"-Wl,-soname,{RUNTIME_NAME}", "-Wl,-Bsymbolic",
        *sorted(map(str, objects.glob("*.o"))), "-o", str(toolchain.runtime),
    ]  # fmt: skip


def _library_command(toolchain: Toolchain) -> list[str]:
    common = (STANDARD, "-O1", "-ffunction-sections", *_COMMON)
    source = str(CPP / "host" / "library.cpp")
    return [
        str(toolchain.gxx), *common, *toolchain.includes(), "-c", source, "-o", str(toolchain.host_object),
    ]  # fmt: skip


def _prelude_command(toolchain: Toolchain, unit: str, flags: tuple[str, ...]) -> list[str]:
    header = toolchain.prelude(unit)
    header.parent.mkdir()
    header.write_text(_PRELUDES[unit])
    return [
        str(toolchain.gxx), *flags, *toolchain.includes(), "-x", "c++-header", str(header),
        "-o", f"{header}.gch",
    ]  # fmt: skip


def _architecture() -> tuple[str, ...]:
    """Return the flag for x86-64-v3 if the CPU has it: vector units, and fused multiply-add as on a GPU."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ()
    flags = set(re.findall(r"\w+", "".join(re.findall(r"^flags\s*:(.*)$", text, re.M)[:1])))
    wanted = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
    return ("-march=x86-64-v3",) if wanted <= flags else ()
