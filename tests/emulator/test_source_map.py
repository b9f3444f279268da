"""Lines of built sources found again in the candidate's file, however the text was put together."""

from agent.build.build_request import BuildRequest, binding_line, definitions, main_unit
from agent.build.source_map import CANDIDATE, locate, with_directives
from agent.emulator.frontend.device_unit import cuda_unit
from agent.torch_shim.c_abi import UNLOCATED_LINE

PIECES = '''import torch
N = 32
head = """#include <cuda_runtime.h>
constexpr int width = 4;
"""
body = f"""
__global__ void first(float* x) {{ x[0] = {N}; }}
// a comment that stands here once
"""
text = head + body + "int generated_line_number_one;\\n"
'''


def test_whole_literal_is_found_line_for_line() -> None:
    assert locate("#include <cuda_runtime.h>\nconstexpr int width = 4;\n", PIECES)[:2] == [3, 4]


def test_pieces_are_found_each_and_generated_lines_are_not() -> None:
    text = (
        "#include <cuda_runtime.h>\nconstexpr int width = 4;\n"
        "\n__global__ void first(float* x) { x[0] = 32; }\n// a comment that stands here once\nint made_up;"
    )
    found = locate(text, PIECES)
    assert found[0:2] == [3, 4]
    assert found[3] is None
    assert found[4] == 8
    assert found[5] is None


def test_escapes_do_not_move_lines() -> None:
    source = 'cuda = """\nprintf("a\\\\n");\nint here;\n"""\n'
    assert locate('\nprintf("a\\n");\nint here;\n', source)[1:3] == [2, 3]


def test_source_without_the_text_gives_no_lines() -> None:
    assert locate("int nowhere_at_all;\n", "not python ((") == [None, None]


def test_directives_only_where_numbers_jump() -> None:
    text = with_directives("a\nb\nc\nd", [5, 6, None, 9], "cuda_sources")
    assert text.split("\n") == [
        f'#line 5 "{CANDIDATE}"', "a", "b", f'#line {UNLOCATED_LINE + 3} "cuda_sources"', "c",
        f'#line 9 "{CANDIDATE}"', "d",
    ]  # fmt: skip


def test_no_directive_inside_a_macro() -> None:
    text = with_directives("#define A \\\n  1\nb", [5, 9, 10], "cuda_sources")
    assert text.split("\n") == [
        f'#line 5 "{CANDIDATE}"',
        "#define A \\",
        "  1",
        f'#line 10 "{CANDIDATE}"',
        "b",
    ]


def request(cuda: str) -> BuildRequest:
    source = f'\n\ncuda = """{cuda}"""\nload_inline(functions=["f", "g"])\n'
    return BuildRequest(
        name="x",
        cpp_sources=("void f();",),
        cuda_sources=(cuda,),
        functions={"f": "f"},
        candidate_source=source,
    )


def test_launches_carry_the_candidates_line() -> None:
    text = cuda_unit(request("__global__ void k() {}\nvoid f() {\n  k<<<1,\n     2>>>();\n}\n"))
    assert ", 5, false, " in text
    assert '#line 3 "candidate.py"' in text


def test_main_unit_is_what_torch_writes() -> None:
    lines = main_unit(request("")).split("\n")
    assert lines[0] == "#include <torch/extension.h>"
    assert lines[-3:-1] == ['m.def("f", torch::wrap_pybind_function(f), "f");', "}"]


def test_names_in_lists_become_docstrings() -> None:
    made = BuildRequest.model_validate({"name": "x", "cpp_sources": [], "functions": ["a", "b"]})
    assert made.functions == {"a": "a", "b": "b"}


def test_binding_line_and_definitions() -> None:
    made = request("at::Tensor f(at::Tensor x,\n  int n)\n{ return g(x); }")
    assert binding_line(made, "g") == 6
    assert definitions(made.cuda, "f") == ["at::Tensor f(at::Tensor x, int n)"]
    assert definitions(made.cuda, "g") == []
