"""Stock `load_inline` in the worker: its requests, compilers and results."""

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
    """Return the build request of a `load_inline` call, given the worker's report of its arguments.

    A single text counts as a list, as in torch. Raises ValueError for arguments that torch would refuse too.
    """
    known = {key: value for key, value in report.items() if key in BuildRequest.model_fields}
    for key in (*LISTS, "functions"):
        if isinstance(known.get(key), str):
            known[key] = [known[key]]
    return BuildRequest(candidate_source=candidate_source, **known)


def nvcc_version(environment: Mapping[str, str]) -> str | None:
    """Return the version of `load_inline`'s nvcc, such as `nvcc 13.0.88`, or None if it is unknown."""
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
    """Return the installation folders of `load_inline`'s compilers, which the sandbox has to show."""
    named = (environment.get(name, "") for name in ("CC", "CXX", "CUDAHOSTCXX"))
    tools = {Path(tool) for tool in (nvcc(environment), *named) if Path(tool).is_absolute()}
    ends = {end for tool in tools if tool.is_file() for end in (tool, tool.resolve())}
    return tuple(sorted({end.parents[1] for end in ends if len(end.parts) > 3}))


def nvcc(environment: Mapping[str, str]) -> str:
    """Return the path of the nvcc that `load_inline` uses."""
    home = environment.get("CUDA_HOME")
    return shutil.which(str(Path(home) / "bin" / "nvcc") if home else "nvcc") or "/usr/local/cuda/bin/nvcc"


def built(request: BuildRequest, seconds: float, log: str | None) -> Built:
    """Return the build as the worker reported it. `log` is the text of a failed build's error, or None."""
    if log is None:
        # The library belongs to the worker and is never opened here; the path only marks that it exists.
        return Built(library=Path("built-in-worker"), seconds=seconds, backend=BACKEND)
    kept = compile_findings.clean(log)[-_KEPT_LOG:]
    found = load_inline_log.findings(log, request)
    return Built(library=None, seconds=seconds, backend=BACKEND, findings=found, log=kept)
