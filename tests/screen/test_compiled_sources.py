"""What the screen makes of the text that is compiled, and of candidates without any."""

import pytest
from screened import found, with_cuda, with_python

from agent.kernels import sources


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('void* handle = dlopen("libcublas.so", 2);', "hidden-library-call"),
        ("auto f = (fn)dlsym(handle, name);", "hidden-library-call"),
        ('int r = system("true");', "process-control"),
        ('int r = std::system ("true");', "process-control"),
        ("int r = ::fork();", "process-control"),
        ("std::thread worker(run);", "process-control"),
        ("auto later = std::async(run);", "process-control"),
        ('FILE* f = fopen("/proc/self/maps", "r");', "file-access"),
        ('std::ifstream in("x");', "file-access"),
        ('#include "/etc/passwd"', "file-access"),
        ("#  include <../../secret.h>", "file-access"),
        (r'asm(".section .rodata\nx: .incbin \"/etc/passwd\"");', "file-access"),
        ('__asm__ volatile ("nop;" ".incbin \'x\'");', "file-access"),
        ("mprotect(page, 4096, 7);", "patches-module"),
        ("__attribute__((constructor)) static void early() {}", "load-time-code"),
    ],
)
def test_what_a_candidate_may_not_do_in_cuda(text: str, kind: str) -> None:
    (finding,) = found(with_cuda(text))
    assert (finding.kind, finding.severity) == (kind, "error")
    assert finding.location is not None
    assert (finding.location.line, finding.location.text) == (13, text)


@pytest.mark.parametrize(
    "text",
    [
        '// dlopen("x") and system("y") are not called',
        '/* #include "/etc/passwd"\n   fork(); std::thread t; */',
        'const char* words = "system(1); dlsym(2); // no comment";',
        'const char* raw = R"x(fork(); ")" fopen(1) )x";',
        "float ecosystem(float x) { return x; }",
        "struct P { void system(int); void fork(); }; void f(P p, P* q) { p.system(1); q->fork(); }",
        "__global__ void __launch_bounds__(256) other() {}",
        "#include <cuda_runtime.h>\n#include <cooperative_groups/reduce.h>",
        "constexpr int big = 1'000'000; constexpr char c = '\"'; // system(\"x\")",
        '// a comment that goes on \\\n   system("true");',
        '__device__ void f() { asm volatile("bar.sync 0;"); } // asm(".incbin")',
        'const char* words = ".incbin is not used";',
        'void f(bool bad) { if (bad) { printf("failed\\n"); exit(1); } }',
    ],
)
def test_what_a_candidate_may_do_in_cuda(text: str) -> None:
    assert found(with_cuda(text)) == ()


def test_a_file_that_compiles_nothing_is_refused() -> None:
    source = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
    (finding,) = found(source)
    assert finding.kind == "no-cuda-kernel"
    assert "never calls load_inline" in finding.message


@pytest.mark.parametrize(
    "kernel",
    ["torch::Tensor copy(torch::Tensor x) { return x; }", "// __global__\n", 'auto s = "__global__";'],
)
def test_sources_without_a_kernel_are_refused(kernel: str) -> None:
    source = with_python("").split("cuda_source = ")[0] + (
        f"decoy = '__global__ void f() {{}}'\n"
        f"load_inline(name='n', cpp_sources=[''], cuda_sources=[{kernel!r}], functions=[])\n"
        "class ModelNew(nn.Module):\n    pass\n"
    )
    (finding,) = found(source)
    assert finding.kind == "no-cuda-kernel"
    assert "none of its sources" in finding.message


@pytest.mark.parametrize(
    "call",
    [
        "load_inline('n', '', '__global__ void f() {}')",
        "A = '__global__ '\nB = A + 'void f() {}'\nload_inline(name='n', cpp_sources='', cuda_sources=B)",
        "load_inline(name='n', cpp_sources='', cuda_sources=['', ('__global__ ' 'void f() {}').strip()])",
        "import textwrap\nload_inline('n', '', textwrap.dedent('''\n    __global__ void f() {}'''))",
        "import torch.utils.cpp_extension as e\ne.load_inline('n', '', '__global__ void f() {}')",
        "from torch.utils import cpp_extension as ext\next.load_inline('n', '', '__global__ void f() {}')",
        "def build():\n    source = '__global__ void f() {}'\n    return load_inline('n', '', source)",
    ],
)
def test_a_kernel_is_found_wherever_its_literal_is(call: str) -> None:
    assert (
        found(with_python("").split("cuda_source = ")[0] + call + "\nclass ModelNew(nn.Module):\n    pass\n")
        == ()
    )


@pytest.mark.parametrize(
    "call",
    [
        "load_inline('n', '', '{} void f() {{}}'.format(QUALIFIER))",
        "load_inline('n', '', f'{QUALIFIER} void f() {{}}')",
        "load_inline('n', '', make_source(256))",
        "load_inline('n', '', '\\n'.join(PARTS))",
        "load_inline(**ARGUMENTS)",
        "import functools\nload = functools.partial(load_inline, 'n', '')",
        "source = ''\nsource += QUALIFIER\nload_inline('n', '', source)",
        "a = 'x'\nb = a\na = b\nload_inline('n', '', a)",
    ],
)
def test_sources_made_at_run_time_are_left_to_the_build(call: str) -> None:
    assert (
        found(with_python("").split("cuda_source = ")[0] + call + "\nclass ModelNew(nn.Module):\n    pass\n")
        == ()
    )


def test_literal_parts_of_a_made_source_are_still_read() -> None:
    call = "load_inline('n', '', f'__global__ void f() {{}} int r = system({COMMAND});')"
    (finding,) = found(with_python(call))
    assert finding.kind == "process-control"


def test_the_shipped_kernels_pass() -> None:
    shipped = {name: sources.candidate(name) for name in sources.NAMES}
    assert shipped
    assert {name: found(text) for name, text in shipped.items()} == {name: () for name in shipped}
