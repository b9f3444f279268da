"""Whole load_inline programs through build and shim, in a process that has torch and not this package."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agent.emulator
from agent.build.build_request import BuildRequest
from agent.build.toolchain import Toolchain
from agent.emulator.compile.build import extension

HERE = Path(__file__).parent
# The last one leaves the device with an error that stays, as on a GPU.
PROGRAMS = sorted(path.stem for path in (HERE / "programs").glob("*.py") if path.stem != "device_face")
PROGRAMS.append("device_face")


@pytest.fixture(scope="module")
def outcome(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the driver reports after running every program in one process."""
    place = tmp_path_factory.mktemp("torch_shim")
    emulator = Path(agent.emulator.__file__).parent
    shutil.copytree(
        emulator.parent / "torch_shim", place / "torch_shim", ignore=shutil.ignore_patterns("__pycache__")
    )
    files = [str(HERE / "programs" / f"{name}.py") for name in PROGRAMS]
    command = [
        sys.executable,
        "-I",
        str(HERE / "torch_shim_driver.py"),
        str(place),
        str(toolchain.runtime),
        *files,
    ]
    environment = os.environ | {"LD_PRELOAD": str(_foreign_runtime(place))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place, env=environment
    ) as process:
        try:
            yield _serve(process, toolchain, place / "builds")
        finally:
            process.kill()


def _foreign_runtime(place: Path) -> Path:
    """Another CUDA runtime in the process, as a CUDA build of torch brings one; it fails at every call."""
    names = (
        "cudaGetLastError",
        "cudaPeekAtLastError",
        "cudaDeviceSynchronize",
        "cudaMalloc",
        "cudaGetDevice",
    )
    (place / "foreign.c").write_text("".join(f"int {name}(void) {{ return 35; }}\n" for name in names))
    library = place / "libforeign.so"
    subprocess.run(["gcc", "-shared", "-fPIC", str(place / "foreign.c"), "-o", str(library)], check=True)
    return library


def _serve(process: subprocess.Popen[str], toolchain: Toolchain, cache: Path) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        message: dict[str, Any] = json.loads(line)
        if "results" in message:
            return message
        source = Path(message["program"]).read_text()
        built = extension(toolchain, BuildRequest(**message["build"], candidate_source=source), cache)
        assert built.library is not None, built.findings
        process.stdin.write(json.dumps({"library": str(built.library)}) + "\n")
        process.stdin.flush()
    raise AssertionError("the driver ended without results")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_agrees_with_torch(outcome: dict[str, Any], name: str) -> None:
    result = outcome["results"][name]
    wrong = [index for index, equal in enumerate(result["cases"]) if not equal]
    assert result["cases"]
    assert not wrong
    assert not [words for words in result["refusals"] if words]


def test_correct_programs_leave_no_findings(outcome: dict[str, Any]) -> None:
    for name in PROGRAMS[:-1]:
        kinds = {finding["kind"] for finding in outcome["results"][name]["findings"]}
        assert kinds <= {"default-stream"}, name


def test_launches_are_counted(outcome: dict[str, Any]) -> None:
    counts = [outcome["results"][name]["launches"] for name in PROGRAMS]
    assert counts[0] > 0
    assert counts == sorted(counts)


def test_findings_name_the_line_of_the_candidate(outcome: dict[str, Any]) -> None:
    findings = outcome["results"]["device_face"]["findings"]
    rows = (HERE / "programs" / "device_face.py").read_text().split("\n")
    launch = next(finding for finding in findings if finding["kind"] == "illegal-launch")
    assert "wild<<<1, 2048>>>" in rows[launch["line"] - 1]
    assert any(finding["kind"] == "null-pointer" for finding in findings)


def test_the_guest_needs_torch_alone(outcome: dict[str, Any]) -> None:
    assert outcome["foreign"] == []
