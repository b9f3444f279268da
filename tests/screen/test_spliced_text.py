"""The text is read as a compiler reads it: lines are joined first, and raw strings alone keep theirs."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from screened import found, with_cuda

from agent import screen
from agent.build import flags, refusals
from agent.build.build_request import BuildRequest
from agent.build.logical_text import logical


def kinds(text: str) -> set[str]:
    return {finding.kind for finding in screen.compiled_text([text], text)}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('int r = sys\\\ntem("true");', "process-control"),
        ('int r = sys\\ \t\ntem("true");', "process-control"),
        ('int r = sys\\\r\ntem("true");', "process-control"),
        ('int r = s\\\n\\\n\\\nystem\\\n("true");', "process-control"),
        ("#def\\\nine RUN sys\\\ntem\nint r = RUN(name);", "process-control"),
        ("%:define OPEN fopen\nauto f = OPEN(name, mode);", "file-access"),
        ('auto f = dl\\\nopen("x", 2);', "hidden-library-call"),
        ("__attri\\\nbute__((construc\\\ntor)) void f();", "load-time-code"),
        ("std::thr\\\nead t(run);", "process-control"),
        ('#incl\\\nude "/etc/passwd"', "file-access"),
        # A raw string is not joined, and ends where it says.
        ('auto s = R"x()\\\nx" )x"; int r = sys\\\ntem("a");', "process-control"),
        ('auto s = R"()\\\n")"; int r = sys\\\ntem("a"); auto t = R"( )";', "process-control"),
        ('/\\\n/ a comment\nint r = system("a");', "process-control"),
    ],
)
def test_a_name_that_is_joined_from_lines_is_read(text: str, kind: str) -> None:
    assert kind in kinds(text)


@pytest.mark.parametrize(
    "text",
    [
        '/\\\n/ fork() \\\n system("a")',
        'auto s = "sys\\\ntem(1)";',
        'auto s = R"(sys\\\ntem(1); " \\\n fork())";',
        "#define SUM(a, b) \\\n    ((a) + \\\n     (b))\nint x = SUM(1, 2);",
        "#define CHECK(x) do { auto e = (x); } while (0)",
        "#define THREADS 256\nfloat ecosystem(float x);",
    ],
)
def test_joined_lines_that_mean_nothing_are_allowed(text: str) -> None:
    assert kinds(text) == set()


def test_the_line_is_that_of_the_file() -> None:
    [finding] = found(with_cuda('int a;\nint r = sys\\\ntem("true");'))
    assert finding.location is not None
    assert finding.location.text == "int r = sys\\"


def test_an_include_is_read_as_the_compiler_does() -> None:
    for text in ('#inc\\\nlude "/etc/passwd"', '#include \\\n"/etc/passwd"', "/* */ #include </etc/x>"):
        [finding] = refusals.of_request(BuildRequest(name="n", cpp_sources=(text,)))
        assert finding.kind == "include-not-allowed"
    good = "#include <torch/extension.h> // why\n#include \\\n  <cuda_fp16.h> /* a\n b */\n"
    good += 'auto s = R"(\n#include "/x"\n)";'
    assert refusals.of_request(BuildRequest(name="n", cpp_sources=(good,))) == ()


PIECES = st.sampled_from(
    [
        "\\\n",
        "\\ \n",
        "\n",
        '"',
        "'",
        'R"(',
        ')"',
        'R"x(',
        ')x"',
        "//",
        "/*",
        "*/",
        "/",
        "\\",
        "a",
        " ",
        "MARK_1",
        "(",
    ]
)


@settings(max_examples=40)
@given(st.lists(PIECES, max_size=12))
def test_what_is_code_is_what_the_compiler_says(pieces: list[str]) -> None:
    """A name is in the code if g++'s preprocessor has it outside strings."""
    text = "".join(pieces) + '\nMARK_2 "x"\n'
    done = subprocess.run(
        ["g++", "-E", "-P", "-x", "c++", "-std=c++20", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or "warning" in done.stderr:
        return
    assert ("MARK_2" in logical(text).code) is ("MARK_2" in logical(done.stdout).code)
    assert logical(text).code.count("MARK_1") == logical(done.stdout).code.count("MARK_1")


def test_raw_strings_that_end_nowhere_take_the_rest(tmp_path: Path) -> None:
    assert "x" not in logical('R"(x').code
    assert logical("a\\").code == "a\\"


@pytest.mark.parametrize(
    "flag",
    [
        "-DKW_CHECKED=0", "-Dkw_check=kw_launch", "-DKw_x", "-UKW_PTX", "-U__CUDACC__", "-D__CUDA_ARCH__=700",
        "-D__syncthreads=0", "-DTORCH_CHECK=0", "-Dfloat=double", "-Dif=while", "-Dassert=0", "-DthreadIdx=0",
        "-DatomicAdd=f", "-DMINE=kw_clear_findings", "-D_Exit=x", "-Ublock",
        "-DC10_CUDA_CHECK=0", "-DTILE=__syncwarp",
    ],
)  # fmt: skip
def test_names_that_are_not_the_candidates_are_refused(flag: str) -> None:
    for given_ in ((flag,), (flag[:2], flag[2:])) if flag.startswith("-D") else ((flag,),):
        assert flags.effective(given_) == ([], [" ".join(given_)])
    [finding] = refusals.of_request(BuildRequest(name="n", cpp_sources=("",), extra_cuda_cflags=(flag,)))
    assert "names of your own only" in finding.message


@pytest.mark.parametrize(
    "flag",
    [
        "-DTILE=16", "-DUNUSED=1", "-DSTEP=10", "-DBLOCK_SIZE=256", "-DUSE_HALF", "-DNDEBUG", "-DVEC4=1",
        "-DBM=128",
        "-DNUM_THREADS=256", "-DWARPS=4", "-DDTYPE=float", "-DWITH_CUDA", "-DHIDDEN=1024", "-DEPS=1e-5",
        "-DUNROLL=4",
        "-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D_GLIBCXX_USE_CXX11_ABI=1",
        "-DCUDA_BLOCK=128", "-DENABLE_BF16", "-DHEAD_DIM=64", "-DMY_GPU", "-D_USE_MATH_DEFINES",
    ],
)  # fmt: skip
def test_names_of_its_own_are_taken(flag: str) -> None:
    assert flags.effective((flag,)) == ([flag], [])
