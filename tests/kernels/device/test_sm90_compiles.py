"""What nvcc makes of the kernels for sm_90: they compile without a warning, and their registers are known."""

import re
import subprocess
from pathlib import Path

import pytest

from agent.build import nvcc

ROOT = Path(__file__).parents[3]
GROUP_NORM = ROOT / "agent" / "kernels" / "group_norm" / "csrc"
CONV = ROOT / "agent" / "kernels" / "conv_group_norm_tanh_hardswish_residual_logsumexp" / "csrc"
LINEAR = ROOT / "agent" / "kernels" / "linear_group_norm_min_bias" / "csrc"
_KERNEL = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers", re.DOTALL
)


def compiled(
    text: str, include: Path, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, tuple[int, int]]:
    """Registers and bytes spilled of each kernel by its mangled name, which it also prints."""
    found = nvcc.find()
    if found is None:
        pytest.skip(nvcc.MISSING)
    source = scratch / "kernels.cu"
    source.write_text(text)
    command = [
        str(found.path), "-std=c++17", "-DKW_DTYPES=1", "-Werror", "all-warnings",
        "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v", f"-I{include}", "-cubin",
        str(source), "-o", str(scratch / "kernels.cubin"),
    ]  # fmt: skip
    built = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stderr
    assert "serialized" not in built.stderr, "ptxas could not keep products in flight"
    kernels = {name: (int(used), int(spilled)) for name, spilled, used in _KERNEL.findall(built.stderr)}
    with capsys.disabled():
        for name, (used, spilled) in kernels.items():
            print(f"\n{used:4} registers, {spilled:3} bytes spilled: {name}", end="")
    return kernels


def test_group_norm_for_sm90(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    face = (
        '#include "sm90_launch.cuh"\nusing namespace kernelwright::group_norm;\n'
        "cudaError_t face(const Forward& f) { return sm90::forward(f); }\n"
        "cudaError_t face(const Backward& b) { return sm90::backward(b); }\n"
    )
    kernels = compiled(face, GROUP_NORM, tmp_path, capsys)
    streamed = [resources for name, resources in kernels.items() if "stream_" in name]
    assert len(streamed) == 2
    assert all(used <= 80 and spilled == 0 for used, spilled in streamed)


def test_linear_for_sm90(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    face = (
        '#include "launch.cuh"\n'
        "using namespace kernelwright;\n"
        "cudaError_t all(const linear::Forward& f) { return linear::forward(f); }\n"
        "cudaError_t least(const linear_group_norm_min_bias::Forward& f) {\n"
        "    return linear_group_norm_min_bias::forward(f);\n}\n"
    )
    kernels = compiled(face, LINEAR, tmp_path, capsys)
    products = [resources for name, resources in kernels.items() if "linear_fp32x3" in name]
    assert len(products) == 6
    assert all(
        used <= 168 and spilled == 0 for name, (used, spilled) in kernels.items() if "anew" not in name
    )


@pytest.mark.parametrize(("kernel", "space"), [("matmul_fp32x3", "matmul"), ("conv_fp32x3", "conv")])
def test_products_for_sm90(
    kernel: str, space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    face = (
        '#include "launch.cuh"\n'
        f"cudaError_t face(const kernelwright::{space}::Forward& f) {{\n"
        f"    return kernelwright::{space}::forward(f);\n}}\n"
    )
    kernels = compiled(face, ROOT / "agent" / "kernels" / kernel / "csrc", tmp_path, capsys)
    products = [resources for name, resources in kernels.items() if f"{kernel}I" in name]
    assert products
    assert all(used <= 168 and spilled == 0 for used, spilled in products)


def test_half_products_for_sm90(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    face = (
        '#include "launch.cuh"\n'
        "cudaError_t face(const kernelwright::matmul_half::Forward& f) {\n"
        "    return kernelwright::matmul_half::forward(f);\n}\n"
    )
    kernels = compiled(face, ROOT / "agent" / "kernels" / "matmul_half" / "csrc", tmp_path, capsys)
    assert len([name for name in kernels if "matmul_half_sm90" in name]) == 8
    assert all(used <= 128 and spilled == 0 for used, spilled in kernels.values())


def test_conv_logsumexp_for_sm90(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    face = (
        '#include "launch.cuh"\n'
        "cudaError_t face(const kernelwright::conv_logsumexp::Forward& f) {\n"
        "    return kernelwright::conv_logsumexp::forward(f);\n}\n"
    )
    kernels = compiled(face, CONV, tmp_path, capsys)
    assert len([name for name in kernels if "sm90" in name]) == 2
    assert all(used <= 128 and spilled <= 8 for used, spilled in kernels.values())
