"""What is the same program under another text, and what is another one."""

from pathlib import Path

import pytest
from build_requests import DECLARED, TWICE, candidate, request

from agent import gpu_build
from agent.build import program
from agent.build.build_request import BuildRequest
from agent.gpu_build import Gpu, GpuToolchain

GPU = Gpu(capability="9.0")
RENAMED = "// Doubles.\n\n" + TWICE.replace("2 * x", "2 * /* twice */ x").replace(
    "int i ", "int index "
).replace("[i]", "[index]").replace("(i <", "(index <")
FASTER = TWICE.replace("<<<4, 64>>>", "<<<2, 128>>>")
THRICE = TWICE.replace("2 * x", "3 * x")
CHECKED = TWICE.replace("auto y", "TORCH_CHECK(x.is_contiguous());\n    auto y")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


def of(
    toolchain: GpuToolchain, cache: Path, cuda: str, cpp: str = DECLARED, flags: tuple[str, ...] = ()
) -> str | None:
    asked = request(cpp, cuda, extra_cuda_cflags=list(flags))
    built = gpu_build.extension(toolchain, asked, GPU, cache, 300)
    assert built.library is not None, built.log
    return program.of_candidate(asked.candidate_source, [asked], [built.program])


def test_names_and_comments_are_no_other_program(toolchain: GpuToolchain, cache: Path) -> None:
    known = of(toolchain, cache, TWICE)
    assert known is not None
    assert of(toolchain, cache, TWICE) == known, "from the cache"
    assert of(toolchain, cache, RENAMED) == known
    assert of(toolchain, cache, TWICE, f"// What there is.\n{DECLARED}") == known


@pytest.mark.parametrize("changed", [FASTER, THRICE, CHECKED], ids=["launch", "kernel", "host"])
def test_what_runs_otherwise_is_another_program(toolchain: GpuToolchain, cache: Path, changed: str) -> None:
    assert of(toolchain, cache, changed) != of(toolchain, cache, TWICE)


def test_flags_make_another_program(toolchain: GpuToolchain, cache: Path) -> None:
    fast = of(toolchain, cache, TWICE, flags=("--use_fast_math",))
    assert fast != of(toolchain, cache, TWICE)


def of_text(source: str) -> str | None:
    asked = BuildRequest(name="t", cpp_sources=(DECLARED,), cuda_sources=(TWICE,), candidate_source=source)
    return program.of_candidate(source, [asked], ["device"])


def test_the_python_around_it_counts_as_far_as_it_runs() -> None:
    source = candidate(DECLARED, TWICE)
    assert of_text(f"# Other words.\n{source}") == of_text(source) is not None
    assert of_text(source.replace("name='t'", "name='t', verbose=True")) != of_text(source)
    assert of_text(f"{source}\nN = 2") != of_text(f"{source}\nN = 3")


def test_what_is_not_known_is_the_same_as_nothing() -> None:
    asked = request(DECLARED, TWICE)
    assert program.of_candidate(asked.candidate_source, [asked], [None]) is None
    assert program.of_candidate("import torch", [], []) is None
    assert program.of_candidate("def (", [asked], ["known"]) is None
    assert program.of_request(asked, None) is None
    assert program.of_device(Path("nowhere")) is None
