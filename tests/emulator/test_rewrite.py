"""The rewriter: what becomes of each piece of CUDA syntax, and what is left alone."""

import pytest
from device_library import DEVICE
from hypothesis import given
from hypothesis import strategies as st

from agent.build.cuda_text import code_only, without_comments
from agent.emulator.frontend.constructs import unsupported
from agent.emulator.frontend.rewrite import RewriteError, device_source

ROLES = "pipelines with roles and barriers beyond a block's (cuda::pipeline_role, cuda::latch, semaphores)"
SHARED = "__global__ void k() {{ {} }}\n"
LAUNCHED = "kw::Launch(KW_NAME({0}), {1}, true, kw::Config({2}))([=](auto&... kw_a) {{ {0}(kw_a...); }}{3})"


@pytest.mark.parametrize(
    ("launch", "callee", "config", "arguments"),
    [
        ("k<<<g, b>>>(x, n)", "k", "g, b", ", x, n"),
        ("k<<<1, 2>>>()", "k", "1, 2", ""),
        ("k<float><<<g, b, 0, s>>>(x)", "k<float>", "g, b, 0, s", ", x"),
        ("ns::k<T, (A > B), f<int>><<<g, b>>>(x)", "ns::k<T, (A > B), f<int>>", "g, b", ", x"),
        ("::k<<<g, b>>>(x)", "::k", "g, b", ", x"),
        ("S<T>::k<U><<<g, b>>>(x)", "S<T>::k<U>", "g, b", ", x"),
        ("S::template k<U> <<< g, b >>> (x)", "S::template k<U>", " g, b ", ", x"),
        ("(*pointer)<<<g, b>>>(x)", "(*pointer)", "g, b", ", x"),
        ("table[i + 1]<<<g, b>>>(x)", "table[i + 1]", "g, b", ", x"),
        ("k<<<g, n >> 3>>>(x)", "k", "g, n >> 3", ", x"),
        ("k<<<g, size<T>>>>(x)", "k", "g, size<T>", ", x"),
        ("k<<<dim3(f(a, b)), b>>>(h(x), [&]{ f(); }())", "k", "dim3(f(a, b)), b", ", h(x), [&]{ f(); }()"),
        ("k<<<g, b>>>(x.data_ptr<float>(), NULL)", "k", "g, b", ", x.data_ptr<float>(), nullptr"),
    ],
)  # fmt: skip
def test_launch(launch: str, callee: str, config: str, arguments: str) -> None:
    rewritten = device_source(f"\n  if (n) {launch}; else return;\n")
    assert rewritten == f"\n  if (n) {LAUNCHED.format(callee, 2, config, arguments)}; else return;\n"


def test_a_launch_of_a_kernel_of_the_source_is_told_from_one_through_a_pointer() -> None:
    kernel = "template <int N>\n__global__ void __launch_bounds__(f(256), 2)\nk(int n) {}\n"
    rewritten = device_source(kernel + "void go() { k<4><<<1, 1>>>(2); pointer<<<1, 1>>>(2); }")
    assert "KW_NAME(k<4>), 4, false," in rewritten
    assert "KW_NAME(pointer), 4, true," in rewritten


def test_a_launch_over_many_lines_keeps_them() -> None:
    text = "k<float,\n  4>\n  <<<grid, // blocks\n   block\n  >>>\n(\n x, // in\n /* out */ y\n);\nlast();"
    rewritten = device_source(text)
    assert rewritten.split("\n")[9] == text.split("\n")[9] == "last();"
    assert "{ k<float, 4>(kw_a...); }" in rewritten
    assert "KW_NAME(k<float,\n  4>), 1, true" in rewritten
    assert "blocks" not in rewritten


def test_a_launch_in_a_macro_takes_the_line_of_its_use() -> None:
    text = "#define GO(K, ...) K<<<g, b>>> \\\n   (__VA_ARGS__)\nGO(k, 1);\n"
    rewritten = device_source(text)
    assert rewritten.startswith(
        "#define GO(K, ...) kw::Launch(KW_NAME(K), __LINE__, true, kw::Config(g, b))("
    )
    assert rewritten.split("\n")[2] == "GO(k, 1);"


@pytest.mark.parametrize(
    ("declaration", "rewritten"),
    [
        ("__shared__ float a[32];", "typedef float kw_T_a[32]; auto& a = KW_SHARED(kw_T_a, a);"),
        (
            "static __shared__ T a[N][N + 1], b;",
            "typedef T kw_T_a[N][N + 1], kw_T_b; "
            "auto& a = KW_SHARED(kw_T_a, a); auto& b = KW_SHARED(kw_T_b, b);",
        ),
        ("volatile __shared__ int f;", "typedef volatile int kw_T_f; auto& f = KW_SHARED(kw_T_f, f);"),
        ("__shared__ __align__(16) float a[4];", "typedef float kw_T_a[4]; auto& a = KW_SHARED(kw_T_a, a);"),
        ("__shared__ alignas(alignof(T)) T a;", "typedef T kw_T_a; auto& a = KW_SHARED(kw_T_a, a);"),
        (
            "__shared__ P<int, 2> a[2], *p;",
            "typedef P<int, 2> kw_T_a[2], *kw_T_p; "
            "auto& a = KW_SHARED(kw_T_a, a); auto& p = KW_SHARED(kw_T_p, p);",
        ),
        (
            "__shared__ typename cub::BlockReduce<float, 256>::TempStorage temp;",
            "typedef typename cub::BlockReduce<float, 256>::TempStorage kw_T_temp; "
            "auto& temp = KW_SHARED(kw_T_temp, temp);",
        ),
        (
            "__shared__ union { float f; int i; } u;",
            "typedef union { float f; int i; } kw_T_u; auto& u = KW_SHARED(kw_T_u, u);",
        ),
        ("extern __shared__ float s[];", "typedef float kw_D_s; KW_DYNAMIC_SHARED(kw_D_s, s);"),
        (
            "extern __shared__ __align__(sizeof(T)) unsigned char s[];",
            "typedef unsigned char kw_D_s; KW_DYNAMIC_SHARED(kw_D_s, s);",
        ),
        (
            "extern volatile __shared__ int s[][33];",
            "typedef volatile int kw_D_s[33]; KW_DYNAMIC_SHARED(kw_D_s, s);",
        ),
    ],
)  # fmt: skip
def test_shared_memory(declaration: str, rewritten: str) -> None:
    result = device_source(SHARED.format(declaration))
    assert " ".join(result.split()) == SHARED.format(rewritten).strip()


def test_shared_memory_outside_functions() -> None:
    text = 'namespace a { extern "C" {\nextern __shared__ float s[];\n__shared__ int n;\n} }\n'
    rewritten = device_source(text).split("\n")
    assert rewritten[1].split(";")[1] == " KW_DYNAMIC_SHARED_GLOBAL(kw_D_s, s)"
    assert rewritten[2] == "__shared__ int n;", "the header's macro covers this one"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\nint a = b <<< 2;\n", 2, "'<<<' without '>>>('"),
        ("\n\n<<<<<<< HEAD\n", 3, "'<<<' without a kernel"),
        ("k<<<1, 2>>>(x", 1, "'(' is never closed"),
        (SHARED.format("\n__shared__ float a[2] = {0, 0};"), 2, "an initializer is not allowed"),
        (SHARED.format("\n__shared__ float a{};"), 2, "cannot be read"),
        (SHARED.format("\n__shared__ float a[2]"), 2, "has no end"),
        (SHARED.format("\nextern __shared__ float s;"), 2, "extern __shared__ T name[]"),
        (
            SHARED.format("extern __shared__ float s[];") * 2
            + SHARED.format("extern __shared__ double s[];"),
            3,
            'incompatible with "extern __shared__ float s[]" (declared at line 1)',
        ),
    ],
)
def test_what_cannot_be_rewritten_is_named_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(RewriteError) as caught:
        device_source(text)
    assert words in str(caught.value)
    assert caught.value.line == line


PLAIN = [
    'const char* s = "k<<<1, 2>>>(x)"; // k<<<1, 2>>>(x)\n',
    "/* __shared__ float a[3]; \n k<<<1,2>>>(x) */ int n = 1'000'000;\n",
    'auto r = R"x(k<<<1, 2>>>(x) " )" __shared__ )x";\n',
    "char q = '\"'; char p = '\\''; // don't\n",
    "#define TILE __shared__ float tile[32]\n",
    "std::cout << a << b; x >>= 3; std::vector<std::vector<std::pair<int, int>>> v;\n",
    "__global__ void k(float* __restrict__ x) { x[threadIdx.x] = 1; }\n",
    "// a comment that goes on \\\n k<<<1, 2>>>(x)\n",
]


@pytest.mark.parametrize("text", PLAIN)
def test_text_without_cuda_syntax_comes_back_unchanged(text: str) -> None:
    assert device_source(text) == text
    assert unsupported(text) == []


PIECES = [
    *PLAIN,
    "void go() {\n  k<T,\n 2><<<g,\r\n b>>>(x, // y\n n);\n}\n",
    "__device__ void f() {\n  __shared__ __align__(16)\n    float a[4],\n b;\n}\n",
    "__device__ void h() { extern __shared__ float s[]; }\n",
    "\r\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_lines_stay_where_they_are_and_a_second_pass_changes_nothing(text: str) -> None:
    rewritten = device_source(text)
    assert rewritten.count("\n") == text.count("\n")
    assert device_source(rewritten) == rewritten


@given(st.text(alphabet="ab/*\"'\\\n(){}<>R1 ;#", max_size=60))
def test_blanking_keeps_every_position(text: str) -> None:
    for blanked in (code_only(text), without_comments(text)):
        assert len(blanked) == len(text)
        assert [i for i, c in enumerate(blanked) if c == "\n"] == [i for i, c in enumerate(text) if c == "\n"]
        assert all(new in (old, " ") for new, old in zip(blanked, text, strict=True))


@given(st.text(alphabet="k<>(){};,x=/\"' \n", max_size=60))
def test_any_text_is_rewritten_or_refused_with_a_line(text: str) -> None:
    lines = text.count("\n") + 1
    try:
        outcome = device_source(text).count("\n") + 1
    except RewriteError as error:
        outcome = lines if 1 <= error.line <= lines else error.line
    assert outcome == lines


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("(void*)k", "k"),
        ("(const void *) k<float, 4>", "k<float, 4>"),
        ("(void*)&ns::k<T>", "&ns::k<T>"),
        ("reinterpret_cast<const void*>(k)", "(k)"),
        ("k", "k"),
    ],
)
def test_a_cooperative_launch_gets_its_kernel_with_its_type(kernel: str, name: str) -> None:
    text = f"int f() {{\n  return cudaLaunchCooperativeKernel({kernel}, g, b, args, 0, s); }}"
    call = f"kw::launch_cooperative(KW_NAME({name.lstrip('&')}), 2, {name}, g, b, args, 0, s)"
    assert device_source(text) == f"int f() {{\n  return {call}; }}"


@pytest.mark.parametrize("name", ["mechanisms.cu", "faults.cu"])
def test_a_whole_file_keeps_its_lines(name: str) -> None:
    text = (DEVICE / name).read_text()
    rewritten = device_source(text)
    assert rewritten.count("\n") == text.count("\n")
    assert "<<<" not in code_only(rewritten)
    assert unsupported(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('asm volatile("mov %0, 1;" : "=r"(x));', "inline PTX (asm)"),
        ("nvcuda::wmma::fragment<> f;", "tensor cores (wmma, mma)"),
        ("#include <mma.h>", "tensor cores (wmma, mma)"),
        ("auto role = cuda::pipeline_role::producer;", ROLES),
        ("cuda::std::latch l(4);", ROLES),
        ("const __grid_constant__ CUtensorMap map;", "tensor memory access (TMA)"),
        ("cudaTextureObject_t t;", "textures and surfaces"),
        ("cublasSgemm(h, a, b);", "cuBLAS, cuDNN and the other CUDA libraries"),
        ("auto h = at::cuda::getCurrentCUDABlasHandle();", "cuBLAS, cuDNN and the other CUDA libraries"),
        ("curandState s;", "cuRAND"),
        ("#include <thrust/sort.h>", "Thrust"),
        ("cub::DeviceReduce::Sum(t, b, x, y, n);", "CUB device-wide algorithms"),
        ("auto g = cg::this_multi_grid();", "launches on several devices"),
        ("auto c = cg::this_cluster();", "thread block clusters"),
        ("cudaLaunchKernel((void*)k, g, b, args, 0, s);", "cudaLaunchKernel with untyped arguments"),
        ("#include <cutlass/gemm.h>", "CUTLASS or CuTe"),
        ("cudaGraphLaunch(g, s);", "CUDA graphs"),
        ("__global__ void p() { k<<<1, 1>>>(); }", "dynamic parallelism (a launch from device code)"),
        ("#define S extern __shared__ float s[]", "extern __shared__ inside a macro"),
    ],
)  # fmt: skip
def test_unsupported_constructs(text: str, name: str) -> None:
    [construct] = unsupported(f"int before;\n// {text}\n{text}\n")
    assert (construct.name, construct.line, construct.text) == (name, 3, text)


def test_unsupported_constructs_come_in_order_and_once() -> None:
    text = (
        'curand_init(s);\nasm("x");\ncurand_uniform(s);\nvoid go() { k<<<1, 1>>>(); }\n__device__ int f();\n'
    )
    assert [(c.name, c.line) for c in unsupported(text)] == [("cuRAND", 1), ("inline PTX (asm)", 2)]


def test_block_level_cub_and_host_launches_are_supported() -> None:
    text = "__global__ void p();\ncub::BlockReduce<float, 256>(t).Sum(x);\nvoid go() { p<<<1, 1>>>(); }\n"
    assert unsupported(text) == []
