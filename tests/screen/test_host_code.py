"""Host code is refused by name unless its list holds the name, however the name is written."""

import pytest
from screened import found, with_cuda

from agent import screen
from agent.emulator.replay.operators import allowed
from agent.records import LibraryOps

F = "torch::Tensor f(torch::Tensor x) "
"""Head of a host function of one tensor."""
REFUSED = {
    "introspection": [
        '#define P(a, b) a##b\nvoid f() { P(get, env)("HOME"); }',
        '#define P(a, b) a##b\n#define Q(a, b) P(a, b)\n#define G get\nvoid f() { Q(G, env)("HOME"); }',
        '#define CALL(f, ...) f(__VA_ARGS__)\nvoid f() { CALL(getenv, "HOME"); }',
        '#if 0\n#define getenv strlen\n#endif\nvoid f() { getenv("HOME"); }',
        "#ifdef A\n#define X get\n#else\n#define X foo\n#endif\n"
        "#define P(a, b) a##b\n#define Q(a, b) P(a, b)\n"
        '#ifdef B\n#define Y bar\n#else\n#define Y env\n#endif\nvoid f() { Q(X, Y)("HOME"); }',
        '#define E(x) x\n#define N()\n#define D(i) i N()\n#define H() getenv\nvoid f() { E(D(H)())("X"); }',
        'namespace n { int getenv(const char*) { return 0; } }\nvoid f() { getenv("HOME"); }',
        'void g() { int getenv = 0; }\nvoid f() { getenv("HOME"); }',
        'struct S { int getenv; };\nvoid f() { getenv("HOME"); }',
        'void f() <% getenv("A"); %>',
        'auto g = &getenv;\nvoid f() { g("HOME"); }',
        'void f() { std::function<char*(const char*)> g = std::getenv; g("A"); }',
        'template <auto F> void g() { F("A"); }\nvoid f() { g<getenv>(); }',
        "void f() { std::vector<char* (*)(const char*)> v{getenv}; }",
        'void f() { [] { return getenv; }()("HOME"); }',
        "extern char** environ;\nchar* f() { return environ[0]; }",
        'extern "C" char* getenv(const char*);\nvoid f() { getenv("A"); }',
        'void f(const char* p = getenv("A")) {}',
        'void f() { std::string s(getenv("A")); }',
        "void f() { PyFrameObject* frame = PyEval_GetFrame(); }",
        "auto f(torch::Tensor x) { return x.storage().unsafeGetStorageImpl(); }",
        "void f() { c10::cuda::CUDACachingAllocator::emptyCache(); }",
    ],
    "hidden-library-call": [
        "using namespace at;\n" + F + "{ return norm(x); }",
        "using at::norm;\n" + F + "{ return norm(x); }",
        "namespace q = at;\n" + F + "{ return q::norm(x); }",
        F + "{ using namespace at; return sum(x); }",
        "namespace mine { using namespace at; }\n" + F + "{ return mine::norm(x); }",
        "using T = at::Tensor;\nT f(T x) { return x.norm(); }",
        "struct S : at::Tensor {};\nat::Tensor f(S x) { return x.norm(); }",
        "struct S { int norm() { return 1; } };\n" + F + "{ return x.norm(); }",
        F + "{ return at::_ops::norm_Scalar::call(x, 2); }",
        "double f(torch::Tensor x) { return torch::norm(x).item<double>(); }",
        F + "{ return exp(x); }",
        "torch::Tensor norm(int x) { return {}; }\n" + F + "{ return norm(x); }",
        "template <class T> auto g(T x) { return exp(x); }\n" + F + "{ return g(x); }",
        F + "{ return x * x; }",
        F + "{ auto y = x.contiguous(); y += 1; return y; }",
        F + "{ return operator*(x, x); }",
        F + "{ return std::plus<torch::Tensor>{}(x, x); }",
        F + "{ auto g = [](auto a, auto b) { return a * b; }; return g(x, x); }",
        F + "{ auto [a, b] = std::make_tuple(x, x); return a * b; }",
        "torch::Tensor f(std::vector<torch::Tensor> v) { return v[0] - v[1]; }",
        "struct S { torch::Tensor t; torch::Tensor g() { return t * 2; } };",
        F + "{ auto m = &torch::Tensor::relu; return (x.*m)(); }",
        F + "{ at::cuda::CUDAGraph graph; return x; }",
        "void f(int64_t a) { reinterpret_cast<void (*)()>(a)(); }",
        "using G = void (*)();\nvoid f(int64_t a) { auto g = (G)a; g(); }",
        "void f(int64_t a) { union { int64_t i; void (*g)(); } u; u.i = a; u.g(); }",
        'void f() { void* p; cudaGetDriverEntryPoint("cuLaunchKernel", &p, 0); }',
        'int secret(const char*);\nvoid f() { secret("a"); }',
        'void f() { C10_CONCATENATE(get, env)("HOME"); }',
        "void f() { omp_set_num_threads(1); }",
        '__device__ void g() { asm("syscall"); }\nvoid f() { g(); }',
        "void f() { k(nullptr, 1); }",
        "void f() { cufftExecC2C(0, 0, 0, 0); }",
    ],
    "file-access": [
        'void f() { ::open("a", 0); }',
        '#define E(x) x\n#define OPEN E(op##en)\nint f() { return OPEN("a", 0); }',
        "namespace a = std;\nnamespace b = a::filesystem;\nvoid f() { b::remove_all(nullptr); }",
        'using namespace std;\nvoid f() { ifstream s("a"); }',
        'void f() { extern int unlink(const char*); unlink("a"); }',
        'void f() { std::remove("a"); }',
    ],
    "process-control": [
        "void f() { k<<<fork(), 1>>>(nullptr, 0); }",
        'void f() { TORCH_CHECK(fork() == 0, "a"); }',
        'void f(at::Tensor x) { AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "a", [&] { fork(); }); }',
        "__host__ __device__ void f() { fork(); }",
        "__device__ void f() { fork(); }",
        "void f() { at::launch([] {}); }",
        'void f() { std::invoke(system, "a"); }',
        "void f() { signal(11, nullptr); }",
        "void f() { cudaLaunchHostFunc(0, nullptr, nullptr); }",
    ],
    "patches-module": [
        'void f(py::object o) { o.attr("x") = o; }',
        'void f(py::object o) { py::setattr(o, "x", o); }',
        'TORCH_LIBRARY_IMPL(aten, CUDA, m) { m.impl("relu", nullptr); }',
        'void f() { asm("call getenv"); }',
        'extern "C" void* g(const char*) __asm__("dlopen");',
        'extern "C" int system(const char* a) { return 0; }',
        'extern "C" void* g() __attribute__((alias("dlopen")));',
        "#pragma weak f = system\nvoid f();",
        "#define __device__\n__device__ void f() {}",
    ],
    "dynamic-code": [
        'void f() { py::exec("1"); }',
        'using namespace pybind11;\nvoid f() { exec("1"); }',
        'void f() { py::module_::import("os"); }',
        'void f() { torch::jit::load("a"); }',
    ],
    "global-setting": [
        "void f() { at::globalContext().setAllowTF32CuBLAS(true); }",
        "void f() { cudaDeviceSetLimit(cudaLimitStackSize, 1); }",
        "void f() { at::GradMode::set_enabled(false); }",
    ],
    "load-time-code": [
        "struct S { S() { cudaDeviceSynchronize(); } };\nstatic S s;",
        "struct S { S() { cudaDeviceSynchronize(); } };\nstruct R { S s; };\nR r;",
        "struct S { S() { cudaDeviceSynchronize(); } };\nstatic S* s = new S;",
        "int g() { return 1; }\nstatic int r = g();",
        "static int r = [] { return 1; }();",
        "int g() { return 1; }\nstruct S { static inline int r = g(); };",
        "static auto t = torch::ones({3});",
        "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { cudaFree(nullptr); }",
        "[[gnu::constructor]] void g() {}",
        'void g() {}\n__attribute__((section(".init_array"))) void (*p)() = g;',
    ],
}


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in REFUSED.items() for text in texts]
)
def test_a_name_outside_the_list_is_refused(kind: str, text: str) -> None:
    errors = found(with_cuda("__global__ void k(float* x, int n) {}\n" + text))
    assert kind in {error.kind for error in errors}, errors
    assert all(error.location is not None for error in errors)


ALLOWED = [
    F + "{ auto y = torch::empty_like(x); k<<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(\n"
    "    y.data_ptr<float>(), (int)x.numel()); C10_CUDA_KERNEL_LAUNCH_CHECK(); return y; }",
    F + "{ const at::cuda::OptionalCUDAGuard guard(device_of(x)); return x.contiguous().view({-1}); }",
    F + '{ TORCH_CHECK(x.is_cuda() && x.dim() == 2, "shape"); return at::zeros({x.size(0)}, x.options()); }',
    F + '{ AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "f", [&] { x.data_ptr<scalar_t>(); }); return x; }',
    "struct Shape { int64_t rows; int64_t norm() const { return rows; } };\n"
    "int64_t f(const Shape& s) { return s.norm(); }",
    "torch::Tensor softmax(torch::Tensor x, int64_t axis) { return x; }\n"
    "torch::Tensor g(torch::Tensor x) { return softmax(x, 1); }",
    "template <typename T> T up(T a, T b) { return (a + b - 1) / b; }\nint f(int n) { return up(n, 256); }",
    "int f(int n) { int wait = n, time = 2, read = 3; return wait + time + read; }",
    "constexpr int up(int a, int b) { return (a + b - 1) / b; }\nconstexpr int kTiles = up(100, 32);",
    "static std::unordered_map<int64_t, torch::Tensor> cache;\nstatic std::mutex guard;",
    "void f() { cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 98304); }",
    "void f(int n) { dim3 grid(n), block(unsigned(n), 2); k<<<grid, block>>>(nullptr, n); }",
    "using Encode = CUresult (*)(CUtensorMap*);\nEncode f() { void* p = nullptr;\n"
    'cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &p, cudaEnableDefault);\nreturn (Encode)p; }',
    'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", [](torch::Tensor x) { return x; }); }',
    "#ifdef __CUDACC__\n#define HD __host__ __device__\n#else\n#define HD\n#endif\n"
    "HD int f(int a) { return a; }",
    "__device__ float getenv_like(float x) { return x; }\n__device__ void f() { asm volatile(\"nop;\"); }",
    "__global__ void __cluster_dims__(2, 1, 1) c(float* x) { cooperative_groups::this_cluster().sync(); }",
    "size_t f(int* a, int* b) { size_t n = 0;\n"
    "cub::DeviceScan::InclusiveSum(nullptr, n, a, b, 4); return n; }",
]  # fmt: skip


@pytest.mark.parametrize("text", ALLOWED)
def test_what_honest_host_code_does_is_taken(text: str) -> None:
    assert found(with_cuda("__global__ void k(float* x, int n) {}\n" + text), "none") == ()


@pytest.mark.parametrize(
    ("call", "settings"),
    [
        ("at::addmm(x, x, x)", {"gemm-conv", "any"}),
        ("x.matmul(x)", {"gemm-conv", "any"}),
        ("at::softmax(x, 1)", {"any"}),
        ("x + x", {"any"}),
        ("x.reshape({-1})", {"none", "gemm-conv", "any"}),
    ],
)
def test_operators_count_as_those_of_python(call: str, settings: set[LibraryOps]) -> None:
    choices: tuple[LibraryOps, ...] = ("none", "gemm-conv", "any")
    taken = {choice for choice in choices if not found(with_cuda(F + f"{{ return {call}; }}"), choice)}
    assert taken == settings


def test_texts_of_one_build_use_each_others_functions() -> None:
    texts = ["int helper(int);\nint f() { return helper(1); }", "int helper(int a) { return a; }"]
    assert screen.compiled_text(texts, "") == ()
    [finding] = screen.compiled_text(texts[:1], texts[0])
    assert (finding.kind, finding.location and finding.location.line) == ("hidden-library-call", 2)


def test_a_flag_defines_a_name() -> None:
    text = 'void f() { INNOCENT("a"); }'
    definitions = ["#define INNOCENT getenv"]
    [finding] = screen.compiled_text([text], text, lambda name: allowed(name, "none"), definitions)
    assert finding.kind == "introspection"
    assert screen.compiled_text(["int f() { return TILE; }"], "", definitions=["#define TILE 16"]) == ()


def test_macros_without_end_are_refused() -> None:
    doubled = "".join(f"#define A{n} A{n - 1} A{n - 1}\n" for n in range(1, 40))
    [finding] = screen.compiled_text([f"#define A0 1\n{doubled}int f() {{ return A39; }}"], "")
    assert finding.kind == "dynamic-code"


def test_one_finding_says_where_and_what_instead() -> None:
    [finding] = found(with_cuda('void f() { char* a = getenv("A"); }'))
    assert finding.location is not None
    assert finding.location.text == 'void f() { char* a = getenv("A"); }'
    assert "`getenv`" in finding.message
    assert "decide by the arguments" in finding.message
