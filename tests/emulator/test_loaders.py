"""An extension that could open libraries is refused, whether or not the one that it would open is there."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from build_requests import DECLARED, KERNEL, TWICE, request

from agent.build.toolchain import Toolchain
from agent.emulator.compile import build, loaders
from agent.emulator.compile.assembly import Workshop
from agent.errors import EnvironmentFault

PASTED = "#define PASTE(a, b) a##b\nPASTE(dl, open)"
LABELLED = 'extern "C" void* harmless(const char*, int) __asm__("dlopen");\nharmless'


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


@pytest.fixture(scope="module")
def vendor_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library by the name of NVIDIA's that anything may open."""
    folder = tmp_path_factory.mktemp("vendor")
    source, made = folder / "cublas.cpp", folder / "libcublas.so.12"
    source.write_text('extern "C" int cublasCreate_v2(void** handle) { return 0; }\n')
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
    assert ctypes.CDLL(str(made)).cublasCreate_v2(None) == 0
    return made


def opening(how: str, library: str) -> str:
    """A kernel whose host code opens `library` first."""
    *before, name = how.split("\n")
    return "\n".join(
        [
            "#include <dlfcn.h>",
            *before,
            KERNEL,
            "torch::Tensor twice(torch::Tensor x) {",
            f'    TORCH_CHECK({name}("{library}", 2) != nullptr, "no cuBLAS");',
            "    auto y = torch::empty_like(x);",
            "    twice_kernel<<<4, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());",
            "    return y;",
            "}",
        ]
    )


@pytest.mark.parametrize("how", [PASTED, LABELLED], ids=["pasted", "by a label"])
def test_a_library_that_is_there_is_refused_as_one_that_is_not(
    toolchain: Toolchain, cache: Path, vendor_library: Path, how: str
) -> None:
    for library in (str(vendor_library), "libnowhere.so.7"):
        made = request(DECLARED, opening(how, library))
        assert build.by_route(Workshop(toolchain, cache, 120), made, "rewritten").library is not None
        # What is built and kept already is looked at like what is new.
        for _ in range(2):
            built = build.extension(toolchain, made, cache)
            assert built.library is None
            assert built.findings[0].kind == "hidden-library-call"
            assert "`dlopen`" in built.findings[0].message
            assert not built.unsupported


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("auto run = &system;\n", "system"),
        ("static int (*run)(const char*) = system;\n", "system"),
        ('extern "C" int run(const char*) __asm__("popen");\n', "popen"),
    ],
)
def test_a_process_that_is_started_by_address_is_refused(
    toolchain: Toolchain, cache: Path, how: str, name: str
) -> None:
    text = (
        "#include <cstdlib>\n"
        + how
        + TWICE.replace("{\n    auto y", '{\n    (void)!run("true");\n    auto y', 1)
    )
    assert "run(" in text
    built = build.extension(toolchain, request(DECLARED, text), cache)
    assert built.library is None
    assert built.findings[0].kind == "process-control"
    assert f"`{name}`" in built.findings[0].message


def test_names_of_such_functions_are_anybodys(toolchain: Toolchain, cache: Path) -> None:
    text = TWICE.replace(
        "{\n    auto y", "{\n    int system = 3, *fork = &system;\n    (void)fork;\n    auto y", 1
    )
    assert "fork" in text
    assert build.extension(toolchain, request(DECLARED, text), cache).library is not None


def test_an_extension_that_opens_nothing_stays(toolchain: Toolchain, cache: Path) -> None:
    built = build.extension(toolchain, request(DECLARED, TWICE), cache)
    assert built.library is not None
    assert not loaders.OPENING & set(loaders.imports(built.library))


def test_imports_that_cannot_be_read_are_nobody_elses_fault(tmp_path: Path) -> None:
    broken = tmp_path / "extension.so"
    broken.write_text("no library")
    with pytest.raises(EnvironmentFault, match=r"imports of extension\.so cannot be read"):
        loaders.imports(broken)


TAMPERING = {
    "a switch": ('extern "C" void kw_check(int);', "kw_check(0);"),
    "a pasted name": (
        '#define PASTE(a, b) a##b\nextern "C" void PASTE(kw_cl, ear_findings)();',
        "PASTE(kw_cl, ear_findings)();",
    ),
    "a weak name": (
        'extern "C" void kw_clear_findings() __attribute__((weak));',
        'TORCH_CHECK(&kw_clear_findings != nullptr, "on a GPU");',
    ),
    "an empty announcement": ('extern "C" void __tsan_read4(void*) {}', ""),
    "a launch of its own": ('extern "C" int kw_launch(const void*) { return 0; }', ""),
}


@pytest.mark.parametrize("how", TAMPERING)
def test_an_extension_that_reaches_for_the_emulator_is_refused(
    toolchain: Toolchain, cache: Path, how: str
) -> None:
    declared, called = TAMPERING[how]
    source = TWICE.replace("auto y", f"{called} auto y", 1)
    made = request(DECLARED, f"{declared}\n{source}")
    built = build.extension(toolchain, made, cache, 120)
    assert built.library is None
    kinds = {finding.kind for finding in built.findings}
    # Where it contradicts a declaration of the emulator's headers, the compiler comes first.
    assert kinds == {"compile-error" if "kw_launch" in declared else "emulator-tampered"}, built.findings


def test_names_like_the_emulators_are_anybodys(toolchain: Toolchain, cache: Path) -> None:
    source = TWICE.replace("auto y", "int kw_width = 1; (void)kw_width; auto y", 1)
    assert build.extension(toolchain, request(DECLARED, source), cache, 120).library is not None
