"""Stores what compilers here say of small faults: `python -m tests.diagnosis.compilers [COMPILER ...]`.

Each fault is a line in a file laid out as torch's `load_inline` lays it out; `compilers.toml` keeps the words
of every compiler that was asked, each under its own version, and what other versions said before stays.
Nothing of torch is included: a stand-in of its tensor class is enough for the messages.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

from agent.diagnosis.build.load_inline_log import CUDA_HEADERS, MAIN_HEADERS

STORED = Path(__file__).resolve().parent / "compilers.toml"
COMPILERS = ("g++-11", "g++-12", "nvcc")
TENSOR = (
    "namespace c10 { enum class ScalarType { Float }; } namespace at { struct DeprecatedTypeProperties; "
    "class Tensor { public: template <class T> T* data_ptr() const { return nullptr; } "
    "long numel() const { return 1; } "
    "c10::ScalarType scalar_type() const { return c10::ScalarType::Float; } }; }"
)
"""One line, so that it takes the place of one header."""


class Fault(NamedTuple):
    """One faulty line of a candidate, with what has to come of it whatever the compiler."""

    file: str
    text: str
    kind: str
    says: str


HOST = {
    "undeclared": Fault(
        "main.cpp", "int f() { return undeclared_thing; }", "undeclared-name", "undeclared_thing"
    ),
    "misspelt": Fault("main.cpp", "int f(int rows) { return rovs; }", "undeclared-name", "rovs"),
    "no semicolon": Fault("main.cpp", "int f() { int n = 1 return n; }", "syntax-error", "expected"),
    "pointer": Fault(
        "main.cpp",
        "void g(const float*); void f(at::Tensor x) { g(x.data_ptr<double>()); }",
        "data-ptr-type",
        "data_ptr<double>",
    ),
    "too few": Fault("main.cpp", "void g(int, int); void f() { g(1); }", "wrong-call", "arguments"),
    "no overload": Fault(
        "main.cpp", "void g(int*); void g(float*, int); void f(double* p) { g(p); }", "wrong-call", "g"
    ),
    "taken twice": Fault("main.cpp", "int g() { return 1; } int g() { return 2; }", "name-clash", "g"),
    "no member": Fault("main.cpp", "void f(at::Tensor x) { x.type(); }", "deprecated-call", "scalar_type"),
    "member of a number": Fault("main.cpp", "void f(float x) { x.size(); }", "type-mismatch", "float"),
    "standard header": Fault("main.cpp", "std::vector<int> f();", "missing-include", "vector"),
    "stream": Fault(
        "main.cpp", "void f() { at::cuda::getCurrentCUDAStream(); }", "missing-include", "CUDAContext"
    ),
    "ambiguous": Fault(
        "main.cpp", "void g(float); void g(double); void f() { g(1L); }", "name-clash", "several functions"
    ),
}
DEVICE = {
    "undeclared": Fault(
        "cuda.cu",
        "__global__ void k(float* y) { y[0] = undeclared_thing; }",
        "undeclared-name",
        "undeclared_thing",
    ),
    "half": Fault("cuda.cu", "__global__ void k(__half* y) { y[0] = 0; }", "missing-include", "cuda_fp16"),
    "host function": Fault(
        "cuda.cu",
        "float g(float x) { return x; } __global__ void k(float* y) { y[0] = g(1.f); }",
        "host-function-in-device-code",
        "g",
    ),
    "no semicolon": Fault(
        "cuda.cu", "__global__ void k(float* y) { y[0] = 1 y[1] = 2; }", "syntax-error", "expected"
    ),
    "pointer": Fault(
        "cuda.cu",
        "__global__ void k(const float* x); void f(at::Tensor x) { k<<<1, 1>>>(x.data_ptr<double>()); }",
        "data-ptr-type",
        "data_ptr<double>",
    ),
    "too many": Fault(
        "cuda.cu",
        "__global__ void k(float* y); void f(float* p) { k<<<1, 1>>>(p, 3); }",
        "wrong-call",
        "too many",
    ),
    "not launched": Fault(
        "cuda.cu", "__global__ void k(float* y); void f(float* p) { k(p); }", "wrong-call", "<<<"
    ),
    "shared types": Fault(
        "cuda.cu",
        "__global__ void a() { extern __shared__ float s[]; s[0] = 1; } "
        "__global__ void b() { extern __shared__ double s[]; s[0] = 1; }",
        "shared-type-clash",
        "two types",
    ),
    "too much shared": Fault(
        "cuda.cu",
        "__global__ void k(float* y) { __shared__ float t[20000]; t[threadIdx.x] = 1; y[0] = t[1]; }",
        "shared-memory-limit",
        "49152",
    ),
    "member of a number": Fault(
        "cuda.cu", "__global__ void k(float* y) { y[0] = y[1].x; }", "type-mismatch", "float"
    ),
}


def faults(compiler: str) -> dict[str, Fault]:
    return DEVICE if compiler == "nvcc" else HOST


def laid_out(fault: Fault) -> str:
    """The file that is compiled, with as many lines before the fault as torch puts there."""
    headers = CUDA_HEADERS if fault.file == "cuda.cu" else MAIN_HEADERS
    return "\n".join([*["//"] * (headers - 1), TENSOR, fault.text, ""])


def said(compiler: str, fault: Fault) -> str:
    """The compiler's words, the place of the file taken out."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / fault.file
        path.write_text(laid_out(fault))
        flags = ["-arch=sm_90"] if compiler == "nvcc" else ["-std=c++17"]
        command = [compiler, *flags, "-c", str(path), "-o", f"{place}/out.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
        if done.returncode == 0:
            raise SystemExit(f"{compiler} takes this for right: {fault.text}")
        text = (done.stdout + done.stderr).replace(place, "/build")
        return re.sub(r"tmpxft_\w+-\w+", "tmpxft_0", text)


ENVIRONMENT = {"PATH": "/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}


def version(compiler: str) -> str:
    """As the compiler gives it, `g++ 12.2.0`."""
    done = subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    found = re.search(r"V(\d+\.\d+)|(\d+\.\d+\.\d+)$", done.stdout, re.M)
    assert found is not None, done.stdout
    return f"{compiler.partition('-')[0]} {found[1] or found[2]}"


def stored() -> dict[str, dict[str, str]]:
    """Version -> name of the fault -> log."""
    return tomllib.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else {}


def main(compilers: list[str]) -> None:
    logs = stored()
    for compiler in compilers or COMPILERS:
        named = version(compiler)
        logs[named] = {name: said(compiler, fault) for name, fault in faults(compiler).items()}
        sys.stdout.write(f"{named}: {len(logs[named])} faults\n")
    parts = ["# Written by `python -m tests.diagnosis.compilers`: what each compiler said of each fault.\n"]
    for named, words in sorted(logs.items()):
        parts.append(
            f'["{named}"]\n' + "".join(f"\"{name}\" = '''\n{log}'''\n" for name, log in words.items())
        )
    STORED.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
