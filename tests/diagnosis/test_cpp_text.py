"""Functions are read from C++ text as far as declarations and mends need them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.diagnosis.build import cpp_functions

TEXT = """
#include <vector>
#define TWICE(x) (2 * (x))
namespace ops { namespace inner {
static inline at::Tensor f(const at::Tensor& x, std::vector<int64_t> sizes = {1, 2}, double eps = 1e-5) {
    if (x.dim() > 1) { return x; }
    return x;
} } }
extern "C" {
void g(void);
}
template <typename T, int N>
__global__ void __launch_bounds__(256) kernel(const T* x, T* y) { y[0] = x[0]; }
__device__ __forceinline__ float h(float x) { return x; }
struct Shape { int rows() const { return 1; } };
std::tuple<at::Tensor, at::Tensor> pair(at::Tensor x) { return {x, x}; }
int table[] = {1, 2, 3};
// void commented(int x);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }
"""


def named(name: str) -> cpp_functions.Function:
    [found] = [function for function in cpp_functions.functions(TEXT) if function.name == name]
    return found


def test_what_is_there_and_nothing_else() -> None:
    assert [function.name for function in cpp_functions.functions(TEXT)] == ["f", "g", "kernel", "h", "pair"]


def test_a_head_is_read_without_its_specifiers_and_defaults() -> None:
    f = named("f")
    assert f.declaration == "at::Tensor f(const at::Tensor& x, std::vector<int64_t> sizes, double eps);"
    assert f.namespace == "ops::inner"
    assert f.specifiers == {"static", "inline"}
    assert f.body is not None
    assert TEXT[slice(*f.body)].startswith("{\n    if")


def test_linkage_templates_and_the_side_it_runs_on() -> None:
    assert named("g").specifiers == {'extern "C"'}
    assert named("g").parameters == ()
    assert "template" in named("kernel").specifiers
    assert set(cpp_functions.kernels(TEXT)) == {"kernel"}
    assert not named("h").on_host
    assert named("pair").returns == "std::tuple<at::Tensor, at::Tensor>"
    assert set(cpp_functions.host_definitions(TEXT)) == {"f", "pair"}


def test_of_an_overloaded_name_no_one_is_meant() -> None:
    assert cpp_functions.host_definitions("int f(int x) { return x; }\nint f(float x) { return 1; }") == {}


@pytest.mark.parametrize("text", ["", "int f(", "}", "int f(int x) {", "namespace {", "template <"])
def test_broken_text_ends_the_list(text: str) -> None:
    assert cpp_functions.functions(text) == ()


@given(st.text(alphabet='(){};,<>=:"\n abf_/*#', max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    for function in cpp_functions.functions(text):
        assert 0 <= function.start <= function.end <= len(text)
