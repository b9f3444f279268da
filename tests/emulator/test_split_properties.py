"""The front end over generated texts: lines stay findable, and no text gets past it unread."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agent.build.build_request import BuildRequest, main_unit
from agent.build.cuda_text import RewriteError
from agent.build.nvcc import regions
from agent.build.source_map import CANDIDATE, candidate_line, locate, with_directives
from agent.emulator import ptx
from agent.emulator.frontend.device_unit import cuda_unit
from agent.emulator.frontend.rewrite import device_source
from agent.emulator.ptx import Untranslated, host

KERNEL = "__global__ void k{0}(float* x, int n) {{\n  // k<<<1, 2>>>(x) {{\n  x[{0}] = n;\n}}\n"
PIECES = [
    KERNEL,
    'void go{0}() {{\n  k{0}<<<1,\n    2>>>(x{0}, "<<<"); // {{\n}}\n',
    'const char* text{0} = R"(__global__ void no() {{ k<<<1, 2>>>(x); }})";\n',
    "#define TWICE{0}(x) \\\n  do {{ x; x; }} while (0)\n",
    "template <class T, class U = std::vector<std::set<T>>>\n__device__ T f{0}(T a) {{ return a >> 3; }}\n",
    "/* __device__ {{ \n */ int between_{0} = 0;\n",
    "\n",
]
numbered = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map(
    lambda pieces: [piece.format(number) for number, piece in enumerate(pieces)]
)
SAFE = st.text(alphabet="abcx_ 01;(){}", max_size=12)


def as_candidate(pieces: list[str]) -> str:
    """A file that puts the pieces together from literals, with code of its own between them."""
    literals = [f'part_{n} = r"""{piece}"""\n' for n, piece in enumerate(pieces)]
    return "import torch\n" + "\nother = 1\n".join(literals)


def seen_by_the_compiler(text: str) -> dict[str, set[tuple[str, int]]]:
    """For each row the places that a preprocessor gives it."""
    place, number = "", 1
    found: dict[str, set[tuple[str, int]]] = {}
    for row in text.split("\n"):
        directive = re.match(r'#line (\d+) "(.*)"$', row)
        if directive:
            place, number = directive[2], int(directive[1])
            continue
        found.setdefault(row.strip(), set()).add((place, number))
        number += 1
    return found


@given(numbered)
def test_every_row_has_the_candidates_line(pieces: list[str]) -> None:
    candidate = as_candidate(pieces)
    text = "".join(pieces)
    rows = candidate.split("\n")
    seen = seen_by_the_compiler(with_directives(text, locate(text, candidate), "cuda_sources"))
    for row, places in seen.items():
        for file, line in places:
            if file == CANDIDATE and not row.startswith("part_"):
                assert row in rows[line - 1]
    named = [row for row in text.split("\n") if re.search(r"k\d+\(float", row)]
    for row in named:
        assert {file for file, _ in seen[row.strip()]} == {CANDIDATE}


@given(numbered)
def test_a_second_pass_gives_the_same_bytes(pieces: list[str]) -> None:
    text = "".join(pieces)
    request = BuildRequest(
        name="x", cpp_sources=("void go();",), cuda_sources=(text,), functions={"go": "go"},
        candidate_source=as_candidate(pieces),
    )  # fmt: skip
    again = BuildRequest.model_validate_json(request.model_dump_json())
    assert (cuda_unit(again), main_unit(again)) == (cuda_unit(request), main_unit(request))


@given(numbered)
def test_device_lines_are_those_of_kernels_and_device_functions(pieces: list[str]) -> None:
    text, candidate = "".join(pieces), as_candidate(pieces)
    request = BuildRequest(
        name="x", cpp_sources=(), cuda_sources=(text,), functions={}, candidate_source=candidate
    )
    lines = regions.device_lines(request)
    places = locate(text, candidate)
    for index, row in enumerate(text.split("\n")):
        number = candidate_line(places, index + 1)
        if re.search(r"\bx\[\d+\] = n;|return a >> 3", row):
            assert number in lines
        if re.search(r"<<<1,$|const char\* text|between_|do {", row):
            assert number not in lines


@given(numbered)
def test_stubs_replace_every_body_and_keep_the_lines(pieces: list[str]) -> None:
    text = "".join(pieces)
    stubs = host.stubbed(text)
    assert stubs.count("\n") == text.count("\n")
    assert "= n;" not in stubs
    assert stubs.count(f"(*volatile {host.POINTER})") == text.count("] = n;")
    assert device_source(stubs).count("\n") == text.count("\n")


@given(st.lists(st.sampled_from([*PIECES, "(", "}", '"', 'R"(', "__global__", "<<<"]), max_size=8), SAFE)
def test_broken_texts_are_refused_with_a_line(pieces: list[str], junk: str) -> None:
    text = junk.join(piece.replace("{0}", "0").replace("{{", "{").replace("}}", "}") for piece in pieces)
    for read in (device_source, host.stubbed, host.switched):
        try:
            line = read(text).count("\n") + 1
        except (RewriteError, Untranslated) as error:
            line = error.line
        assert 1 <= line <= text.count("\n") + 1


INSTRUCTIONS = st.sampled_from(
    [
        "mov.u32 %r1, %tid.x;", "add.s32 %r2, %r1, 7;", "@%p1 bra $L1;", "$L1:", "setp.lt.s32 %p1, %r1, %r2;",
        "ld.param.u64 %rd1, [p0];", "st.global.u32 [%rd1+4], %r2;", "bar.sync 0;", "{ .reg .f32 %f; }",
        "tcgen05.fence::before_thread_sync;", "mov.b64 {%r1, %r2}, %rd1;", "// bra $L9;",
        ".pragma \"nounroll\";", "}", "[", "ret;",
    ]
)  # fmt: skip


@given(st.lists(INSTRUCTIONS, max_size=12))
def test_ptx_is_translated_or_refused_by_name(body: list[str]) -> None:
    head = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p0) {\n"
    registers = ".reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<3>;\n"
    text = head + registers + "\n".join(body) + "\nret;\n}\n"
    unit, named = None, ""
    try:
        unit = ptx.unit(text, (CANDIDATE,), set())
    except Untranslated as refused:
        named = refused.instruction
    if unit is None:
        assert named
    else:
        assert "tcgen05.fence::before_thread_sync;" not in body
        assert [entry.name for entry in unit.entries] == ["k"]
        assert ptx.unit(text, (CANDIDATE,), set()) == unit
