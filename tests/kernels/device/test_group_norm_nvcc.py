"""What nvcc makes of the designs for sm_90: they compile without a warning, and their registers are known."""

import re
import subprocess
from pathlib import Path

import pytest

from agent.emulator import nvcc

CSRC = Path(__file__).parents[3] / "agent" / "kernels" / "group_norm" / "csrc"
SPILLS = 96
"""Bytes of a thread that held6 may spill: 96 registers of data leave 32 for all else."""
_KERNEL = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers", re.DOTALL
)


def test_designs_for_sm90_compile_and_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = nvcc.find()
    if found is None:
        pytest.skip(nvcc.MISSING)
    source = tmp_path / "designs.cu"
    source.write_text(
        '#include "sm90_launch.cuh"\n'
        "cudaError_t face(const kernelwright::group_norm::Forward& f, int64_t design) {\n"
        "    return kernelwright::group_norm::sm90::forward(f, design);\n}\n"
    )
    command = [
        str(found.path), "-std=c++17", "-DKW_DTYPES=1", "-Werror", "all-warnings",
        "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v", f"-I{CSRC}", "-cubin",
        str(source), "-o", str(tmp_path / "designs.cubin"),
    ]  # fmt: skip
    built = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stderr
    kernels = [
        (name, int(spilled), int(registers))
        for name, spilled, registers in _KERNEL.findall(built.stderr)
        if "sm90" in name
    ]
    with capsys.disabled():
        for name, spilled, registers in kernels:
            print(f"\n{registers:4} registers, {spilled:3} bytes spilled: {name}", end="")
    assert len(kernels) == 12
    assert all(registers <= 128 and spilled <= SPILLS for _, spilled, registers in kernels)
