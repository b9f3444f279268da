"""Whole extensions whose kernels run from PTX: the host text, and programs compared with PyTorch."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from corpus_run import BUILDS

import agent.emulator
from agent.build import nvcc
from agent.build.build_request import BuildRequest
from agent.build.toolchain import Toolchain
from agent.emulator.compile import build
from agent.emulator.compile.assembly import Workshop
from agent.emulator.ptx import Untranslated, host

HERE = Path(__file__).parent
SAMPLE = ("group_norm", "histogram", "softmax", "unnamed_namespace")
NEEDS_NVCC = pytest.mark.skipif(nvcc.find() is None, reason=nvcc.MISSING)


def test_bodies_go_and_lines_stay() -> None:
    text = (
        "static __constant__ float weights[3];\n"
        "template <class T>\n__global__ void scale(const T* x, T* __restrict__ y, int n = 3) {\n"
        "    y[0] = x[0];\n}\n"
        "static __global__ void rest(void) { /* } */ }\n"
        "__global__ void later(float a[4]);\n"
    )
    rewritten = host.stubbed(text)
    assert rewritten.count("\n") == text.count("\n")
    assert "y[0]" not in rewritten
    assert "static __constant__" not in rewritten
    addresses = "".join(f"(void*)__builtin_addressof({name}), " for name in "xyn")
    assert addresses in rewritten
    assert "{nullptr}" in rewritten.split("\n")[5]
    assert rewritten.split("\n")[6] == "__global__ void later(float a[4]);"


@pytest.mark.parametrize(
    "text",
    [
        "#define KERNEL(n) __global__ void n(float* x) { x[0] = 1; }\nKERNEL(one)\n",
        "__global__ void called(float (*f)(float)) {}\n",
        "__global__ void unnamed(int) {}\n",
    ],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Untranslated):
        host.stubbed(text)


def test_bodies_stay_behind_a_switch() -> None:
    text = (
        "template <class... A>\n__global__ void all(A... a, float* x, const int n) {\n    x[n] = 0;\n}\n"
        "#define KERNEL(n) __global__ void n(float* x) { x[0] = 1; }\nKERNEL(one)\n"
        "__global__ void called(float (*f)(float)) {}\n"
    )
    switched = host.switched(text)
    assert switched.count("\n") == text.count("\n")
    assert "x[n] = 0;" in switched
    assert "{(void*)__builtin_addressof(a)..., (void*)__builtin_addressof(kw_1), " in switched
    # What cannot be read keeps its own body alone.
    assert switched.split("\n")[4:] == text.split("\n")[4:]


def test_device_functions_with_ptx_lose_their_bodies() -> None:
    text = (
        '#define WAIT() asm volatile("membar.gl;")\n'
        '__device__ float fast(float x) {\n    asm("" : "+f"(x));\n    return x;\n}\n'
        "__device__ void wait() { WAIT(); }\n"
        "__device__ float plain(float x) { return x; }\n"
    )
    lines = host.stubbed(text).split("\n")
    assert lines[0] == text.split("\n")[0]
    assert lines[1] == "__device__ float fast(float x) { __builtin_trap(); }"
    assert lines[5:7] == ["__device__ void wait() { __builtin_trap(); }", text.split("\n")[6]]


def test_lines_of_shared_variables() -> None:
    text = (
        "__global__ void k() {\n    __shared__ float a[4][N + 1], b;\n    __shared__ int c[2];\n}\n"
        "__device__ void f() {\n    __shared__ T c[3];  // another of that name\n}\n"
    )
    assert host.shared_lines(text) == {"a": 2, "b": 2}


def test_the_symbol_between_the_two_sides() -> None:
    assert host.pointer_symbol("_Z5scalePf") == "_ZZ5scalePfE6kw_ptx"
    assert host.pointer_symbol("plain") == "_ZZ5plainE6kw_ptx"


@NEEDS_NVCC
def test_programs_agree_with_torch(toolchain: Toolchain, tmp_path: Path) -> None:
    """Templates, dispatch over types, constants copied by the host, atomics, halves."""
    results = _run(toolchain, tmp_path)
    for name in SAMPLE:
        assert results[name]["cases"], name
        assert all(results[name]["cases"]), name
        assert {finding["kind"] for finding in results[name]["findings"]} <= {"default-stream"}, name
        assert results[name]["launches"] > 0


def _run(toolchain: Toolchain, place: Path) -> dict[str, Any]:
    emulator = Path(agent.emulator.__file__).parent
    shutil.copytree(
        emulator.parent / "torch_shim", place / "torch_shim", ignore=shutil.ignore_patterns("__pycache__")
    )
    files = [str(HERE / "programs" / f"{name}.py") for name in SAMPLE]
    driver = [str(HERE / "torch_shim_driver.py"), str(place), str(toolchain.runtime), *files]
    with subprocess.Popen(
        [sys.executable, "-I", *driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for line in process.stdout:
                message: dict[str, Any] = json.loads(line)
                if "results" in message:
                    found: dict[str, Any] = message["results"]
                    return found
                source = Path(message["program"]).read_text()
                request = BuildRequest(**message["build"], candidate_source=source)
                built = build.by_route(Workshop(toolchain, BUILDS, 120), request, "stubbed")
                assert (built.backend, built.findings) == ("emulator-ptx", ())
                process.stdin.write(json.dumps({"library": str(built.library)}) + "\n")
                process.stdin.flush()
        finally:
            process.kill()
    raise AssertionError("the driver ended without results")
