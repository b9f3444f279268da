"""What a build finds, with the line of the candidate's own file, and that the cache is sound."""

from pathlib import Path

import pytest
from build_requests import DECLARED, TWICE, request

from agent.build import nvcc
from agent.build.build_request import BuildRequest
from agent.build.toolchain import CPP, Toolchain
from agent.emulator.compile import build, ptx_build
from agent.emulator.compile.assembly import Workshop
from agent.emulator.compile.build import Built
from agent.emulator.ptx import Untranslated


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


def slim(toolchain: Toolchain, request: BuildRequest, cache: Path) -> Built:
    """What the slim headers make of it; a gap in them leads to torch's own, which have tests of their own."""
    return build.by_route(Workshop(toolchain, cache, 120), request, "rewritten")


def headline(built: Built) -> tuple[str, str, str | None]:
    """Kind, message and text of the line of the first finding."""
    assert built.library is None
    finding = built.findings[0]
    return finding.kind, finding.message, finding.location.text if finding.location else None


def test_missing_declaration_names_function_and_mend(toolchain: Toolchain, cache: Path) -> None:
    made = request("", TWICE)
    built = build.extension(toolchain, made, cache)
    kind, message, text = headline(built)
    assert kind == "missing-declaration"
    assert "`twice` is listed in `functions`, but cpp_sources does not declare it" in message
    assert "add `torch::Tensor twice(torch::Tensor x);` to cpp_sources" in message
    assert text is not None
    assert "functions=['twice']" in text
    location = built.findings[0].location
    assert location is not None
    assert made.candidate_source.split("\n")[(location.line or 0) - 1].strip() == text
    assert not built.unsupported


def test_binding_a_kernel_is_explained(toolchain: Toolchain, cache: Path) -> None:
    kind, message, _ = headline(build.extension(toolchain, request("", TWICE, ("twice_kernel",)), cache))
    assert kind == "missing-declaration"
    assert "is a `__global__` kernel, which Python cannot call" in message


def test_function_that_nothing_defines(toolchain: Toolchain, cache: Path) -> None:
    kind, message, _ = headline(
        build.extension(
            toolchain, request(DECLARED.replace("twice", "twice_it"), TWICE, ("twice_it",)), cache
        )
    )
    assert kind == "undefined-function"
    assert "`twice_it(at::Tensor)` is declared and used, but no source defines it" in message
    assert "the nearest definition is `twice`" in message


def test_declaration_and_definition_that_differ(toolchain: Toolchain, cache: Path) -> None:
    made = request("torch::Tensor twice(torch::Tensor x, int n);", TWICE)
    kind, message, text = headline(build.extension(toolchain, made, cache))
    assert kind == "undefined-function"
    assert "it is defined as `torch::Tensor twice(torch::Tensor x)`, which is another function" in message
    assert text is not None
    assert "twice(torch::Tensor x" in text


def test_extern_c(toolchain: Toolchain, cache: Path) -> None:
    cuda = TWICE.replace("torch::Tensor twice", 'extern "C" torch::Tensor twice')
    kind, message, text = headline(build.extension(toolchain, request(DECLARED, cuda), cache))
    assert kind == "extern-c"
    assert 'remove `extern "C"`' in message
    assert text is not None
    assert "twice(torch::Tensor x)" in text


@pytest.mark.parametrize(
    ("before", "after", "message", "line"),
    [
        ("2 * x[i];", "2 * x[j];", "'j' was not declared in this scope", "if (i < n) y[i] = 2 * x[j];"),
        ("2 * x[i];", "2 * x[i]", "expected ';' before '}' token", "if (i < n) y[i] = 2 * x[i]"),
        (
            "x.data_ptr<float>(), y",
            "x, y",
            "cannot convert 'at::Tensor' to 'const float*'",
            "twice_kernel<<<4, 64>>>(x, y.data_ptr<float>(), x.numel());",
        ),
        (
            "empty_like(x)",
            "empty_likes(x)",
            "'empty_likes' is not a member of 'torch'",
            "auto y = torch::empty_likes(x);",
        ),
    ],
)
def test_compile_error_is_the_compilers_own(
    toolchain: Toolchain, cache: Path, before: str, after: str, message: str, line: str
) -> None:
    built = build.extension(toolchain, request(DECLARED, TWICE.replace(before, after)), cache)
    kind, said, text = headline(built)
    assert kind == "compile-error"
    assert message in said
    assert text == line
    assert not built.unsupported
    shown = said + str(built.findings[0].evidence) + built.log
    assert str(Path.home()) not in shown
    assert str(CPP) not in shown
    assert "1000" not in shown


def test_missing_include_is_the_candidates_own(toolchain: Toolchain, cache: Path) -> None:
    cuda = TWICE.replace("4, 64>", "4, 64, 0, at::cuda::getCurrentCUDAStream()>")
    built = build.extension(toolchain, request(DECLARED, cuda), cache)
    assert headline(built)[0] == "compile-error"
    assert "'cuda' is not a member of 'at'" in headline(built)[1]


def test_data_ptr_of_half_does_not_link(toolchain: Toolchain, cache: Path) -> None:
    cuda = TWICE.replace("return y;", "(void)x.data_ptr<__half>(); return y;")
    kind, message, text = headline(build.extension(toolchain, request(DECLARED, cuda), cache))
    assert kind == "undefined-function"
    assert "use `reinterpret_cast<__half*>(x.data_ptr<at::Half>())`" in message
    assert text is not None
    assert "data_ptr<__half>" in text


@pytest.mark.parametrize(
    ("cuda", "lacks"),
    [
        ("torch::Tensor twice(torch::Tensor x) { return torch::nn::functional::gelu(x); }", "torch::nn"),
        ("torch::Tensor twice(torch::Tensor x) { return x.fft_rfft(); }", None),
        ("torch::Tensor twice(torch::Tensor x) { x.retain_grad(); return x; }", "at::Tensor::retain_grad"),
        ("#include <torch/csrc/autograd/function.h>\n", "the header torch/csrc/autograd/function.h"),
    ],
)
def test_gap_of_the_slim_headers_is_told_from_an_error(
    toolchain: Toolchain, cache: Path, cuda: str, lacks: str | None
) -> None:
    built = slim(toolchain, request(DECLARED, f"\n{cuda}\n"), cache)
    kind, message, text = headline(built)
    if lacks is None:  # no method of that name in torch either
        assert (kind, built.unsupported) == ("compile-error", False)
        return
    assert (kind, built.unsupported) == ("header-gap", True)
    assert lacks in message
    assert text == cuda.strip()


def test_inline_ptx_runs_from_nvidias_code(toolchain: Toolchain, cache: Path, nvidia: nvcc.Nvcc) -> None:
    cuda = TWICE.replace("y[i] = 2", 'asm volatile("membar.gl;");\n    y[i] = 2')
    built = build.extension(toolchain, request(DECLARED, cuda), cache)
    assert built.library is not None
    assert built.backend == "emulator-ptx"
    [note] = built.notes
    assert note.startswith(
        "indices of arrays within one variable: the kernels ran from NVIDIA's code alone (line "
    )
    assert 'asm volatile("membar.gl;");)' in note


@pytest.mark.parametrize("has_nvcc", [True, False])
def test_construct_that_the_emulator_does_not_run(
    toolchain: Toolchain, cache: Path, has_nvcc: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_nvcc:
        monkeypatch.setattr(nvcc, "find", lambda: None)
    elif nvcc.find() is None:
        pytest.skip(nvcc.MISSING)
    barrier = 'asm volatile("pmevent 1;");'
    built = build.extension(
        toolchain, request(DECLARED, TWICE.replace("y[i] = 2", f"{barrier}\n y[i] = 2")), cache
    )
    kind, message, text = headline(built)
    assert (kind, built.unsupported) == ("unsupported-construct", True)
    assert message.startswith("The emulator does not run inline PTX (asm); a GPU may.")
    assert ("NVIDIA's compiler makes `pmevent" in message) == has_nvcc
    assert text == f"if (i < n) {barrier}"


def test_what_is_not_translated_runs_from_the_source(
    toolchain: Toolchain, cache: Path, nvidia: nvcc.Nvcc, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Untranslated("an.instruction", 7)

    monkeypatch.setattr(ptx_build, "translated_unit", refuse)
    built = build.extension(toolchain, request(DECLARED, TWICE.replace("2 *", "5 *")), cache)
    assert built.library is not None
    assert built.backend == "emulator-slim"
    assert built.notes == (
        "kernels ran from the rewritten source only, not from NVIDIA's code: an.instruction (line 7)",
    )


def test_no_module(toolchain: Toolchain, cache: Path) -> None:
    kind, message, _ = headline(build.extension(toolchain, request(DECLARED, TWICE, None), cache))
    assert kind == "no-module"
    assert "PYBIND11_MODULE" in message


@pytest.mark.parametrize(
    ("option", "value", "shown"),
    [
        ("extra_cflags", ("-I/etc",), "-I/etc"),
        ("extra_cuda_cflags", ("-O3", "-fplugin=x.so"), "-fplugin=x.so"),
        ("extra_cuda_cflags", ("-Xcompiler", "-include/etc/passwd"), "-Xcompiler -include/etc/passwd"),
        ("extra_cflags", ("-O3", "-std=c++14"), "-std=c++14"),
        ("extra_cuda_cflags", ("-std", "c++11"), "-std c++11"),
        ("extra_cuda_cflags", ("-arch=sm_35",), "-arch=sm_35"),
        (
            "extra_cuda_cflags",
            ("-gencode", "arch=compute_52,code=sm_52"),
            "-gencode arch=compute_52,code=sm_52",
        ),
        ("extra_ldflags", ("-lcublas",), "-lcublas"),
        ("extra_include_paths", ("/etc",), "/etc"),
    ],
)
def test_flags_that_are_not_taken(
    toolchain: Toolchain, cache: Path, option: str, value: tuple[str, ...], shown: str
) -> None:
    built = build.extension(toolchain, request(DECLARED, TWICE, **{option: value}), cache)
    kind, message, _ = headline(built)
    assert kind == "flag-not-allowed"
    assert f"{option} has `{shown}`" in message


@pytest.mark.parametrize(
    "text",
    ['#include "/etc/hostname"', "#  include <../../secret.h>", "#include HOSTNAME_FILE_OF_THE_MACHINE"],
)
def test_files_of_the_machine_are_not_included(toolchain: Toolchain, cache: Path, text: str) -> None:
    kind, message, line = headline(build.extension(toolchain, request(DECLARED, f"{text}\n{TWICE}"), cache))
    assert kind == "include-not-allowed"
    assert text.split()[-1].strip('"<>') in message
    assert line is not None
    assert line.endswith(text)


def test_runtime_function_that_the_emulator_lacks_is_unsupported(toolchain: Toolchain, cache: Path) -> None:
    cuda = TWICE.replace("return y;", "cudaProfilerStart(); return y;")
    built = build.extension(toolchain, request(DECLARED, "#include <cuda_profiler_api.h>" + cuda), cache)
    assert (headline(built)[0], built.unsupported) == ("header-gap", True)


def test_argument_type_that_cannot_be_converted_is_a_gap(toolchain: Toolchain, cache: Path) -> None:
    cuda = "void twice(std::vector<std::vector<float*>> x) {}"
    built = slim(toolchain, request(cuda.replace("{}", ";"), cuda), cache)
    kind, message, text = headline(built)
    assert (kind, built.unsupported) == ("header-gap", True)
    assert "a conversion for the types of `twice`" in message
    assert text is not None
    assert "functions=['twice']" in text


def test_overloaded_function_cannot_be_bound_by_name(toolchain: Toolchain, cache: Path) -> None:
    built = build.extension(toolchain, request("void twice(int x); void twice(double x);", TWICE), cache)
    kind, message, text = headline(built)
    assert kind == "compile-error"
    assert message.startswith("binding `twice` from `functions`: ")
    assert text is not None
    assert "functions=['twice']" in text


def test_functions_are_names(toolchain: Toolchain, cache: Path) -> None:
    kind, message, _ = headline(build.extension(toolchain, request(DECLARED, TWICE, (DECLARED,)), cache))
    assert kind == "not-a-name"
    assert "takes names, not signatures" in message


def test_compiler_that_does_not_end_is_stopped(toolchain: Toolchain, cache: Path) -> None:
    endless = (
        "template <int A, int B> struct F {\n"
        "  static constexpr unsigned v = F<A - 1, B>::v + F<A - 1, B + 1>::v;\n};\n"
        "template <int B> struct F<0, B> { static constexpr unsigned v = 1; };\n"
        "long twice() { return F<800, 0>::v; }\n"
    )
    built = build.extension(toolchain, request("long twice();", endless), cache, timeout_s=2)
    assert headline(built)[0] == "build-timeout"
