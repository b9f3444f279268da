"""What the build of a candidate's file says, without the judge: for texts of the tests alone.

The file is executed in this process with a `load_inline` that records what it is asked and builds that on the
emulator.
"""

from pathlib import Path
from typing import Any

import pytest
from torch.utils import cpp_extension

from agent import screen
from agent.build.build_request import BuildRequest
from agent.build.toolchain import Toolchain
from agent.diagnosis.build import errors as diagnosis
from agent.diagnosis.runtime import python_errors
from agent.emulator.compile import build
from agent.records import Candidate, Finding

REFERENCE = "def get_inputs():\n    return []\n"


class _Extension:
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def findings(
    source: str, toolchain: Toolchain, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Finding, ...]:
    """What stops the file from being imported, or ModelNew from being made; empty where nothing does."""
    screened = screen.check(REFERENCE, Candidate(problem="scale", source=source))
    refused = tuple(finding for finding in screened if finding.severity == "error")
    if refused:
        return refused
    requests: list[BuildRequest] = []

    def load_inline(name: str, cpp_sources: Any, cuda_sources: Any = None, **options: Any) -> _Extension:
        asked = {"cpp_sources": _texts(cpp_sources), "cuda_sources": _texts(cuda_sources)}
        known = {key: value for key, value in options.items() if key in BuildRequest.model_fields}
        requests.append(BuildRequest(name=name, candidate_source=source, **asked, **known))
        return _Extension()

    monkeypatch.setattr(cpp_extension, "load_inline", load_inline)
    try:
        space: dict[str, Any] = {"__name__": "candidate"}
        exec(compile(source, "candidate.py", "exec"), space)
        space["ModelNew"](2.0)
    except (NameError, TypeError) as error:
        claim = {"type": type(error).__name__, "message": str(error), "line": None}
        return (python_errors.finding(claim, "importing the file failed", source),)
    for request in requests:
        built = build.extension(toolchain, request, cache)
        if built.library is None:
            return diagnosis.explained(built.findings, request)
    return ()


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
