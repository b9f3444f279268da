"""What the driver is asked of a GPU, by a driver of three functions."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from agent.build import present_gpu, toolchain

DRIVER = """
int cuInit(unsigned flags) { return flags; }
int cuDeviceGet(int *device, int number) { *device = 7; return number != 0 || !GPUS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 12 : attribute == 76 ? 1 : -1;
    return device != 7;
}
"""


def driver(folder: Path, gpus: int) -> str:
    source, made = folder / "driver.c", folder / f"{gpus}.so"
    source.write_text(DRIVER, encoding="utf-8")
    compiler, _ = toolchain.compiler_here()
    subprocess.run(
        [compiler, "-x", "c", f"-DGPUS={gpus}", "-shared", "-fPIC", "-o", made, source], check=True
    )
    return str(made)


def test_the_driver_says_what_the_gpu_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, asked = ctypes.CDLL, []

    def loaded(name: str) -> ctypes.CDLL:
        asked.append(name)
        return load(driver(tmp_path, gpus=1))

    monkeypatch.setattr(ctypes, "CDLL", loaded)
    assert present_gpu.capability() == (12, 1)
    assert asked == ["libcuda.so.1"]


def test_no_gpu_and_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: load(driver(tmp_path, gpus=0)))
    assert present_gpu.capability() is None
    monkeypatch.setattr(ctypes, "CDLL", lambda name: load(str(tmp_path / "none.so")))
    assert present_gpu.capability() is None
