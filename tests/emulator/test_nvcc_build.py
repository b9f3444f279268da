"""nvcc beside g++ in a build: who is believed, what is found without it, and that it wrongs nobody."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from emulator.nvcc_cases import HOST, KERNEL, asked

import agent.emulator
from agent import parse
from agent.build import compiler, nvcc
from agent.build.build_request import BuildRequest
from agent.build.nvcc import tool
from agent.build.toolchain import Toolchain
from agent.emulator.compile import build, device_check
from agent.emulator.compile import toolchain as toolchain_module
from agent.emulator.compile.build import Built
from agent.harness.backends import selection
from agent.harness.backends.workspace import library_folder
from agent.harness.task.job import BUILD_LIMIT_S, Job
from agent.kernels import sources
from agent.records import Candidate, Completion, Finding, Location, Problem, Trace

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SHIPPED = ("add_rms_norm", "conv_fp32x3", "group_norm", "softmax")
"""Kernels that are always tried: of rows and of groups, by tensor cores, with few parts and with many."""
NOTHING = Trace(operations=(), inputs=(), init_inputs=(), outputs=(), state=(), flops=0, min_bytes=0)


def headline(built: Built) -> tuple[str, str, str | None]:
    assert built.library is None
    finding = built.findings[0]
    return finding.kind, finding.message, finding.location.text if finding.location else None


def test_error_stands_though_gxx_took_the_line(
    toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc
) -> None:
    cuda = f"\nfloat host_only(float v) {{ return v; }}{KERNEL.replace('2 * x[i]', 'host_only(x[i])')}{HOST}"
    built = build.extension(toolchain, asked(cuda), tmp_path)
    kind, message, text = headline(built)
    assert (kind, built.unsupported) == ("compile-error", False)
    assert "calling a __host__ function" in message
    assert text == "if (i < n) y[i] = host_only(x[i]);"


def test_what_the_emulator_does_not_run_is_checked_too(
    toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc
) -> None:
    asm = 'asm volatile("INSTRUCTION;");\n    if (i'
    wrong = KERNEL.replace("if (i", asm.replace("INSTRUCTION", "bad.op"))
    refused = build.extension(toolchain, asked(wrong + HOST), tmp_path)
    kind, message, text = headline(refused)
    assert (kind, refused.unsupported) == ("compile-error", False)
    assert message == "ptxas: Unknown modifier '.op'"
    assert text == 'asm volatile("bad.op;");'
    right = KERNEL.replace("if (i", asm.replace("INSTRUCTION", "pmevent 1"))
    left = build.extension(toolchain, asked(right + HOST), tmp_path)
    assert (headline(left)[0], left.unsupported) == ("unsupported-construct", True)
    assert [kernel.name for kernel in left.kernels] == ["twice_kernel"]


def test_what_nvcc_takes_and_gxx_does_not_runs_from_ptx(
    toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc
) -> None:
    line = "__builtin_assume(n > 0);"
    kernel = KERNEL.replace("if (i < n)", f"{line}\n    if (i < n)")
    built = build.extension(toolchain, asked(kernel + HOST), tmp_path)
    assert built.library is not None
    assert built.backend == "emulator-ptx"
    assert [note.endswith(f": {line})") for note in built.notes] == [True]


def test_a_gap_that_the_ptx_does_not_close_is_the_emulators(
    toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc
) -> None:
    kernel = KERNEL.replace("if (i", '__builtin_assume(n > 0);\n    asm volatile("pmevent 1;");\n    if (i')
    built = build.extension(toolchain, asked(kernel + HOST), tmp_path)
    kind, message, text = headline(built)
    assert (kind, built.unsupported) == ("unsupported-construct", True)
    assert "`pmevent" in message
    assert text == 'asm volatile("pmevent 1;");'


def test_each_compiler_is_the_authority_on_its_own_code() -> None:
    request = asked(KERNEL + HOST)
    rows = [row.strip() for row in request.candidate_source.split("\n")]

    def at(text: str, kind: str = "compile-error") -> Finding:
        return Finding(kind=kind, message=f"about {text}", location=Location(line=rows.index(text) + 1))

    device, host = at("if (i < n) y[i] = 2 * x[i];"), at("return y;")
    taken = device_check.weighed((device, host), nvcc.Verdict(accepted=True), request)
    assert [(f.kind, f.location) for f in taken] == [
        ("compile-error", host.location),
        ("header-gap", device.location),
    ]
    gap = at("auto y = torch::empty_like(x);", "header-gap")
    refused = device_check.weighed((gap, host), nvcc.Verdict(findings=(device,)), request)
    assert refused == (host, device)
    unknown = device.model_copy(update={"kind": "header-gap"})
    assert device_check.weighed((unknown,), nvcc.Verdict(findings=(device,)), request) == (unknown,)
    assert device_check.weighed((gap, device), nvcc.Verdict(gap="a name"), request) == (gap, device)


def test_without_nvcc_the_build_goes_on_and_says_so(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(tool, "TOOLKIT", tmp_path)
    monkeypatch.setattr(tool, "wheel_homes", lambda: iter(()))
    assert nvcc.find() is None
    built = build.extension(toolchain, asked(KERNEL + HOST), tmp_path)
    assert built.library is not None
    assert built.kernels == ()
    assert built.notes == (
        "no nvcc here: device code was not checked by NVIDIA's compiler, nor its registers",
    )
    broken = build.extension(toolchain, asked(KERNEL.replace("int i", "ant i") + HOST), tmp_path)
    assert headline(broken)[0] == "compile-error"
    assert broken.notes == built.notes


def test_the_verdict_says_what_was_not_checked(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvcc, "find", lambda: None)
    monkeypatch.setattr(toolchain_module, "prepare", lambda cache, **_: toolchain)
    request = asked(KERNEL + HOST)
    job = Job(
        problem=Problem(name="p", source="", trace=NOTHING),
        candidate=Candidate(problem="p", source=request.candidate_source),
        executor="emulator",
        candidate_timeout_s=5,
        cache_dir=str(tmp_path),
    )
    backend = selection.backend_for(job, lambda what: None)
    library_folder(backend.box(tmp_path / "candidate").folder).mkdir()
    assert backend.unchecked() == ()
    for _ in range(2):
        backend.serve({"build": request.model_dump(exclude={"candidate_source"})})
    assert backend.unchecked() == (nvcc.MISSING,)


def test_nvcc_is_found_in_cuda_home_and_one_that_does_not_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, words in (("broken", "exit 1"), ("home", "echo release 13.9, V13.9.7")):
        place = tmp_path / name / "bin"
        place.mkdir(parents=True)
        (place / "nvcc").write_text(f"#!/bin/sh\n{words}\n")
        (place / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "broken" / "bin"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    found = nvcc.find()
    assert found is not None
    assert (found.path, found.version) == (tmp_path / "home" / "bin" / "nvcc", "13.9.7")


def programs(place: Path, everything: bool) -> list[Path]:
    """Every correct program of the tests, the recorded answers that build, and shipped kernels."""
    own = sorted((HERE / "programs").glob("*.py"))
    names = sources.NAMES if everything else SHIPPED
    shipped = [place / f"shipped_{name}.py" for name in names]
    for name, path in zip(names, shipped, strict=True):
        path.write_text(sources.candidate(name))
    answers = []
    for number in (2, 3, 4):
        text = (ROOT / "tests" / "recorded" / "group_norm" / f"{number}.md").read_text()
        path = place / f"answer_{number}.py"
        answer = Completion(provider="recorded", model=None, text=text)
        path.write_text(parse.candidate("level1/group_norm", answer, None).source)
        answers.append(path)
    return [*own, *shipped, *answers]


@pytest.mark.timeout(1800)
def test_no_correct_program_is_refused(
    toolchain: Toolchain, tmp_path: Path, nvidia: nvcc.Nvcc, request: pytest.FixtureRequest
) -> None:
    torch_shim = Path(agent.torch_shim.__file__).parent
    shutil.copytree(torch_shim, tmp_path / "torch_shim", ignore=shutil.ignore_patterns("__pycache__"))
    command = [
        sys.executable,
        "-I",
        str(HERE / "nvcc_requests.py"),
        str(tmp_path),
        *map(str, programs(tmp_path, bool(request.config.getoption("--all-kernels")))),
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    asked_for: list[dict[str, Any]] = json.loads(said)
    assert len(asked_for) >= 19

    def verdict(number: int) -> tuple[str, bool, nvcc.Verdict]:
        item = asked_for[number]
        asked = BuildRequest(**item["build"], candidate_source=Path(item["program"]).read_text())
        place = tmp_path / str(number)
        place.mkdir()
        check = device_check.DeviceCheck(toolchain, asked, place, place)
        ran = compiler.run(check.commands(), place, BUILD_LIMIT_S, toolchain.visible)
        # Fuller headers would hide that the bare ones do not compile, and cost every build a second run.
        check.has_ptx(ran, BUILD_LIMIT_S, retry=False)
        ran = compiler.run(check.assembling(), place, BUILD_LIMIT_S, toolchain.visible)
        found = check.verdict(ran)
        return Path(item["program"]).name, bool(asked.cuda), found

    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(verdict, range(len(asked_for))))
    assert [(name, found.findings) for name, _, found in verdicts if found.findings] == []
    # cub::Max went with release 13 of the toolkit.
    unread = {name: found.gap for name, has_kernels, found in verdicts if has_kernels and not found.accepted}
    assert set(unread) <= {"block_reduce.py"}
    assert all("cub" in str(gap) for gap in unread.values())
