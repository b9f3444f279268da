"""The text in which every kernel says its name; `e2e/test_real_kernels.py` sees the names themselves."""

from agent.build.build_request import BuildRequest
from agent.build.cuda_text import with_named_namespaces
from agent.emulator.frontend.device_unit import cuda_unit
from agent.emulator.frontend.kernel_names import COMPLETE, with_names


def test_every_definition_begins_with_its_name_and_lines_stay() -> None:
    text = (
        "__global__ void later(float* x);\n"
        "template <int N>\n__global__ void __launch_bounds__(128, (N > 2 ? 1 : 2))\n"
        "scan(float* x, int (*f)(int)) {\n"
        "    if (f(1)) { x[0] = 1; }\n}\n"
        "template <> __global__ void scan<4>(float* x, int (*f)(int)) noexcept { if (x) x[0] = 2; }\n"
    )
    named, complete = with_names(text)
    assert complete
    assert named.count("\n") == text.count("\n")
    assert named.replace(" KW_KERNEL ", "") == text
    assert [line.count("KW_KERNEL") for line in named.split("\n")] == [0, 0, 0, 1, 0, 0, 1, 0]
    assert "noexcept { KW_KERNEL  if (x)" in named


def test_a_kernel_that_cannot_be_read_leaves_the_unit_without_names() -> None:
    macro = "#define KERNEL(n) __global__ void n(float* x) { x[0] = 1; }\nKERNEL(one)\n"
    plain = "__global__ void two(float* x) { x[0] = 2; }\n"
    assert with_names(macro + plain) == (macro + plain.replace("{ ", "{ KW_KERNEL  "), False)
    assert with_names("int f() { return 1; }\n")[1] is False
    for text, ends in ((plain, True), (macro + plain, False)):
        request = BuildRequest(name="m", cpp_sources=("",), cuda_sources=(text,))
        assert cuda_unit(request).endswith(f"{COMPLETE}\n") == ends


def test_unnamed_namespaces_get_a_name_and_others_stay() -> None:
    text = (
        "namespace {\nint a;\n}  // namespace\nnamespace b { inline namespace\n{ } }\n"
        "#define OPEN namespace {\nnamespace c = b; // namespace {\nusing namespace b;\n"
    )
    assert with_named_namespaces(text) == (
        "inline namespace kw_unnamed {\nint a;\n}  // namespace\n"
        "namespace b { inline namespace kw_unnamed\n{ } }\n"
        "#define OPEN namespace {\nnamespace c = b; // namespace {\nusing namespace b;\n"
    )
