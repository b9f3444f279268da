"""nvcc's words, read without an nvcc: its front end, ptxas, and which lines are device code."""

import pytest

from agent.build.build_request import BuildRequest
from agent.build.nvcc import messages, regions, unit

FRONT_END = """\
candidate.py(16): error: identifier "j" is undefined
    x[j] = 1.0f;
      ^

candidate.py(14): warning #177-D: variable "unused" was declared but never referenced
    int unused = 3;
        ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

candidate.py(10): error: expression must have class type but it has type "float"
  template <class T> __attribute__((device)) T inner(T v) { return v.foo(); }
                                                                   ^
          detected during:
            instantiation of "T inner(T) [with T=float]" at line 11
            instantiation of "void k(T *) [with T=float]" at line 19 of cuda_sources

candidate.py(30): error: no instance of function template "g" matches the argument list
            argument types are: (float *, int)
    g(x, 3);
    ^

3 errors detected in the compilation of "device.cu".
"""

PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3rowILi4EEvPf' for 'sm_90'
ptxas info    : Function properties for _Z3rowILi4EEvPf
    48 bytes stack frame, 52 bytes spill stores, 60 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 2112 bytes smem, 48 bytes cumulative stack size
ptxas info    : Compile time = 46.294 ms
ptxas info    : Function properties for _Z4slowf
    0 bytes stack frame, 7 bytes spill stores, 7 bytes spill loads
ptxas info    : Compiling entry function 'plain' for 'sm_90'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""

FAULTS = """\
ptxas device.ptx, line 50; error   : Unknown modifier '.op'
ptxas error   : Entry function '_Z1kPf' uses too much shared data (0x13880 bytes, 0xc000 max)
ptxas fatal   : Ptx assembly aborted due to errors
"""


def test_errors_and_warnings_of_the_front_end() -> None:
    undefined, warning, member, overload = messages.parse(FRONT_END)
    assert (undefined.severity, undefined.file, undefined.line) == ("error", "candidate.py", 16)
    assert undefined.text == 'identifier "j" is undefined'
    assert (warning.severity, warning.line) == ("warning", 14)
    assert warning.text == 'variable "unused" was declared but never referenced'
    assert member.context == (("candidate.py", 11), ("cuda_sources", 19))
    assert member.notes == []
    assert overload.notes == [("candidate.py", "argument types are: (float *, int)")]


def test_an_error_of_the_code_generator_begins_with_a_capital() -> None:
    said = "Formal parameter space overflowed (40984 bytes required, max 32764 bytes allowed) in function k"
    (found,) = messages.parse(f"candidate.py(3): Error: {said}\n\n")
    assert (found.severity, found.file, found.line, found.text) == ("error", "candidate.py", 3, said)


def test_resources_of_each_kernel() -> None:
    row, plain = messages.kernels(PTXAS)
    assert row.name.startswith("row<4>")
    assert (row.registers, row.spill_bytes, row.shared_bytes) == (32, 52, 2112)
    assert (plain.name, plain.registers, plain.spill_bytes, plain.shared_bytes) == ("plain", 10, 0, 0)


def test_names_stay_as_they_are_without_a_demangler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert messages.demangled(["_Z1kPf"]) == ["_Z1kPf"]


def test_faults_of_ptxas() -> None:
    asm, shared = messages.faults(FAULTS)
    assert (asm.text, asm.line) == ("Unknown modifier '.op'", 50)
    assert shared.line is None
    assert "uses too much shared data" in shared.text


SOURCE = """
__constant__ float table[3] = {1, 2, 3};
__device__ float later(float v);
template <class T>
__global__ void __launch_bounds__(256)
first(const T* x, T* y) {  // {
    y[0] = "}" ? x[0] : x[1];
}
void host(float* p) {
    auto scale = [] __device__ (float v) {
        return v;
    };
}
__device__ __forceinline__ float later(float v) { return v; }
"""


def request(cuda: str, **options: object) -> BuildRequest:
    candidate = f'import torch\ncuda = r"""{cuda}"""\n'
    return BuildRequest.model_validate(
        {"name": "t", "cpp_sources": (), "cuda_sources": (cuda,), "candidate_source": candidate, **options}
    )


def test_lines_of_device_code() -> None:
    asked = request(SOURCE)
    rows = asked.candidate_source.split("\n")
    shown = [rows[line - 1].strip() for line in sorted(regions.device_lines(asked))]
    assert shown == [
        "template <class T>",
        "__global__ void __launch_bounds__(256)",
        "first(const T* x, T* y) {  // {",
        'y[0] = "}" ? x[0] : x[1];',
        "}",
        "auto scale = [] __device__ (float v) {",
        "return v;",
        "};",
        "__device__ __forceinline__ float later(float v) { return v; }",
    ]
    line = regions.kernel_line(asked, "first<float>")
    assert line is not None
    assert rows[line - 1].startswith("first(")
    assert regions.kernel_line(asked, "second") is None


def test_the_unit_has_the_headers_that_the_source_names() -> None:
    plain = unit.text(request("void f() {}"))
    assert "<string>" not in plain
    assert "KW_SIXTEEN_BIT_USED" not in plain
    rich = unit.text(request("at::Half h; std::string s; std :: make_shared<int>(3);"))
    assert "#include <string>\n#include <memory>\n" in rich
    assert "#define KW_SIXTEEN_BIT_USED 1" in rich
    assert '#line 2 "candidate.py"' in rich
    assert "<mutex>" in unit.text(request("using namespace std;"))


def test_flags_that_matter_to_device_code_are_passed() -> None:
    given = (
        "-O3",
        "--use_fast_math",
        "-maxrregcount 32",
        "-Xptxas",
        "-O1",
        "-DTILE=16",
        "-std=c++17",
        "-lineinfo",
    )
    chosen = unit.flags(request("", extra_cuda_cflags=given))
    for flag in (
        "--use_fast_math",
        "-maxrregcount=32",
        "-Xptxas=-O1",
        "-DTILE=16",
        "--expt-relaxed-constexpr",
    ):
        assert flag in chosen
    assert not {"-std=c++17", "-O3", "-lineinfo"} & set(chosen)
    assert unit.architecture(request("")) == "sm_90"
    assert (
        unit.architecture(request("", extra_cuda_cflags=("-gencode=arch=compute_90a,code=sm_90a",)))
        == "sm_90a"
    )
