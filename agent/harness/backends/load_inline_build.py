"""Stock `load_inline` in the worker: what it was asked, with which compilers, and what came of it."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from agent.build import compile_findings
from agent.build.build_request import BuildRequest
from agent.diagnosis.build import load_inline_log
from agent.emulator.compile.build import Built

BACKEND = "load_inline"
_KEPT_LOG = 20_000


LISTS = ("cpp_sources", "cuda_sources", "extra_cflags", "extra_cuda_cflags", "extra_ldflags",
         "extra_include_paths")  # fmt: skip


def asked(report: Mapping[str, Any], candidate_source: str) -> BuildRequest:
    """The request that a call of `load_inline` made; torch takes one text where it takes a list of them.

    Raises ValueError for arguments that torch would not have taken either.
    """
    known = {key: value for key, value in report.items() if key in BuildRequest.model_fields}
    for key in (*LISTS, "functions"):
        if isinstance(known.get(key), str):
            known[key] = [known[key]]
    return BuildRequest(candidate_source=candidate_source, **known)


def nvcc_version(environment: Mapping[str, str]) -> str | None:
    """`nvcc 13.0.88`, of the compiler that `load_inline` takes; None where it does not say."""
    return _version(nvcc(environment))


@cache
def _version(tool: str) -> str | None:
    try:
        answer = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False, timeout=20)
    except OSError:
        return None
    match = re.search(r"\bV([0-9.]+)", answer.stdout)
    return f"nvcc {match[1]}" if match else None


def compilers(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The installations of the compilers that `load_inline` starts, for a sandbox to show."""
    named = (environment.get(name, "") for name in ("CC", "CXX", "CUDAHOSTCXX"))
    tools = {Path(tool) for tool in (nvcc(environment), *named) if Path(tool).is_absolute()}
    ends = {end for tool in tools if tool.is_file() for end in (tool, tool.resolve())}
    return tuple(sorted({end.parents[1] for end in ends if len(end.parts) > 3}))


def nvcc(environment: Mapping[str, str]) -> str:
    """The compiler that `load_inline` takes."""
    home = environment.get("CUDA_HOME")
    return shutil.which(str(Path(home) / "bin" / "nvcc") if home else "nvcc") or "/usr/local/cuda/bin/nvcc"


def built(request: BuildRequest, seconds: float, log: str | None) -> Built:
    """The build as the worker reported it; `log` is the exception's text, None where there was none."""
    if log is None:
        # The library is the worker's own and is never opened here; its place only says that there is one.
        return Built(library=Path("built-in-worker"), seconds=seconds, backend=BACKEND)
    kept = compile_findings.clean(log)[-_KEPT_LOG:]
    found = load_inline_log.findings(log, request)
    return Built(library=None, seconds=seconds, backend=BACKEND, findings=found, log=kept)
