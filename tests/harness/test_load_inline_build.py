"""What g++, nvcc, ld and the loader say about stock builds becomes findings at the candidate's lines."""

import pytest

from agent.harness.backends import load_inline_build
from agent.records import Finding

SOURCE = """\
from torch.utils.cpp_extension import load_inline

CPP = ""
CUDA = '''
__global__ void kernel(float* y) { y[0] = undefined_thing; }
torch::Tensor twice(torch::Tensor x) {
    kernel<<<1, 1>>>(x.data_ptr<float>());
    return x;
}
'''
ext = load_inline(name="t", cpp_sources=CPP, cuda_sources=CUDA, functions=["twice"])
"""
CUDA = SOURCE.split("'''")[1]


def finding(log: str) -> Finding:
    report = {"name": "t", "cpp_sources": "", "cuda_sources": CUDA, "functions": ["twice"], "verbose": False}
    built = load_inline_build.built(load_inline_build.asked(report, SOURCE), 1.0, log)
    assert built.library is None
    return built.findings[0]


def test_a_missing_declaration_names_the_mend() -> None:
    log = (
        "Error building extension 't': [1/3] c++ -MMD main.cpp\n"
        "/tmp/x/main.cpp: In function 'void pybind11_init_t(pybind11::module_&)':\n"
        "/tmp/x/main.cpp:4:41: error: 'twice' was not declared in this scope\n"
    )
    found = finding(log)
    assert found.kind == "missing-declaration"
    assert "add `torch::Tensor twice(torch::Tensor x);` to cpp_sources" in found.message
    assert found.location is not None
    assert found.location.line == 11


def test_an_error_of_nvcc_has_the_candidates_line() -> None:
    found = finding('/tmp/x/cuda.cu(5): error: identifier "undefined_thing" is undefined\n')
    assert found.kind == "compile-error"
    assert "undefined_thing" in found.message
    assert found.location is not None
    assert found.location.line == 5
    assert found.location.text == CUDA.splitlines()[1]


def test_an_undefined_symbol_is_demangled() -> None:
    found = finding("ImportError: /tmp/x/t.so: undefined symbol: _Z6thriceN2at6TensorE")
    assert found.kind in ("undefined-function", "compile-error")
    assert "thrice" in found.message or "thrice" in (found.evidence or "")
    assert "/tmp/x" not in found.message


@pytest.mark.parametrize("log", ["", "no reason was given", "RuntimeError: Ninja is required\n"])
def test_words_nobody_knows_are_shown(log: str) -> None:
    found = finding(log)
    assert found.kind == ("load-error" if "Ninja" in log else "compile-error")
    assert found.message


def test_a_build_without_a_log_succeeded() -> None:
    report = {"name": "t", "cpp_sources": ["", ""], "functions": "twice"}
    assert load_inline_build.built(load_inline_build.asked(report, SOURCE), 2.0, None).library is not None
