"""Host code that the slim headers are not enough for: built against torch's own, and run."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agent.emulator
from agent.build import header_gap
from agent.build.build_request import BuildRequest
from agent.build.toolchain import Toolchain
from agent.emulator.compile import full_headers, symbolize
from agent.emulator.compile.build import Built, extension
from agent.records import Finding

HERE = Path(__file__).parent
# The headers are precompiled on first need: a minute of processor time, on a busy machine many minutes.
pytestmark = pytest.mark.timeout(1800)
PROGRAM = HERE / "full" / "beyond_slim.py"
UNFIT = """#include <torch/library.h>
torch::Tensor f(torch::Tensor x) {
  return x.no_such_method();
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }"""


class Ran:
    """What the build and the driver said of the program."""

    built: Built
    result: dict[str, Any]


@pytest.fixture(scope="module")
def ran(
    toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Ran]:
    if not request.config.getoption("--all-kernels"):
        pytest.skip("torch's own headers take minutes to prepare; --all-kernels runs it")
    try:
        full_headers.prepare(toolchain)
    except full_headers.Unavailable as error:
        pytest.skip(f"no full headers: {error}")
    place = tmp_path_factory.mktemp("full")
    emulator = Path(agent.emulator.__file__).parent
    shutil.copytree(
        emulator.parent / "torch_shim", place / "torch_shim", ignore=shutil.ignore_patterns("__pycache__")
    )
    driver = [sys.executable, "-I", str(HERE / "torch_shim_driver.py"), str(place), str(toolchain.runtime)]
    with subprocess.Popen(
        [*driver, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        outcome = Ran()
        try:
            asked = json.loads(process.stdout.readline())["build"]
            build = BuildRequest(**asked, candidate_source=PROGRAM.read_text())
            outcome.built = extension(toolchain, build, place / "builds", 600)
            assert outcome.built.library is not None, outcome.built.findings
            process.stdin.write(json.dumps({"library": str(outcome.built.library)}) + "\n")
            process.stdin.flush()
            outcome.result = json.loads(process.stdout.readline())["results"]["beyond_slim"]
            libraries = [outcome.built.library]
            outcome.result["findings"] = symbolize.resolve(outcome.result["findings"], libraries)
            yield outcome
        finally:
            process.kill()


def test_the_backend_and_its_reason_are_named(ran: Ran) -> None:
    assert ran.built.backend == "emulator-full"
    line = PROGRAM.read_text().split("\n").index("#include <torch/library.h>") + 1
    assert (
        "built against torch's own headers: the emulator's slim ones lack the header torch/library.h "
        f"(line {line})"
    ) in ran.built.notes


def test_everything_agrees_with_torch(ran: Ran) -> None:
    assert [index for index, equal in enumerate(ran.result["cases"]) if not equal] == []
    assert [words for words in ran.result["refusals"] if words] == []
    assert ran.result["launches"] > 0


def test_memory_that_torch_made_in_cpp_is_checked(ran: Ran) -> None:
    rows = PROGRAM.read_text().split("\n")
    beyond, unwritten = ran.result["findings"]
    assert beyond["kind"] == "global-out-of-bounds-write"
    assert "0 bytes past the end of a float32 tensor [3, 7]" in beyond["message"]
    assert rows[beyond["line"] - 1].strip().startswith("if (column < x.size(1)) y[row]")
    assert unwritten["kind"] == "unwritten-output"
    assert unwritten["message"].startswith("1 of 2 elements of the float32 output [2] were never written")


def test_without_full_headers_the_gap_stays_and_says_why(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*given: object) -> None:
        raise full_headers.Unavailable("Python's own headers are missing (apt-get install python3-dev)")

    monkeypatch.setattr(full_headers, "prepare", missing)
    built = extension(toolchain, BuildRequest(name="e", cpp_sources=(UNFIT,)), tmp_path)
    assert built.unsupported
    assert built.findings[0].kind == "header-gap"
    assert (
        "torch's own headers were not tried: Python's own headers are missing (apt-get install python3-dev)"
    ) in built.notes


def test_what_torch_has_not_either_is_the_candidates_fault(
    toolchain: Toolchain, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--all-kernels"):
        pytest.skip("a second build against the full headers; --all-kernels runs it")
    source = f"SOURCE = r'''{UNFIT}'''"
    built = extension(
        toolchain, BuildRequest(name="e", cpp_sources=(UNFIT,), candidate_source=source), tmp_path
    )
    assert built.backend == "emulator-full"
    assert not built.unsupported
    assert built.findings[0].kind == "compile-error"
    assert "has no member named 'no_such_method'" in built.findings[0].message
    assert built.findings[0].location is not None
    assert built.findings[0].location.line == 3


@pytest.mark.parametrize(
    ("lacking", "may_be_filled"),
    [
        ("the header torch/library.h", True),
        ("the header cublas_v2.h", False),
        ("the header c10/cuda/CUDACachingAllocator.h", False),
        ("at::Tensor::retain_grad", True),
        ("cudaGraphLaunch", False),
    ],
)
def test_only_gaps_of_torch_are_tried_again(toolchain: Toolchain, lacking: str, may_be_filled: bool) -> None:
    message = f"The emulator's torch and CUDA headers lack {lacking}; a GPU build may accept this code."
    found = Finding(kind="header-gap", message=message)
    assert header_gap.is_of_torch(found, toolchain.cuda_include) == may_be_filled


@pytest.mark.parametrize(
    ("error", "lacking"),
    [
        ("error: cusparse.h: No such file or directory", "the header cusparse.h"),
        (
            "error: 'getPinnedMemoryAllocator' is not a member of 'at::cuda'",
            "at::cuda::getPinnedMemoryAllocator",
        ),
        ("undefined symbol: c10::cuda::CUDACachingAllocator::get()", "c10::cuda::CUDACachingAllocator::get"),
        ("error: 'class at::Tensor' has no member named 'retain_gradient'", None),
        ("error: 'no_such_name' was not declared in this scope", None),
    ],
)
def test_parts_of_a_cuda_build_are_no_fault_of_the_candidate(
    toolchain: Toolchain, error: str, lacking: str | None
) -> None:
    finding = Finding(kind="compile-error", message="it failed", evidence=error)
    gap = header_gap.beyond_torch(finding, toolchain.cuda_include)
    assert (gap and gap.message) == (
        lacking and f"The emulator's torch and CUDA headers lack {lacking}; a GPU build may accept this code."
    )
