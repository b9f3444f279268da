"""The shipped kernels compute what torch does: every path of each, on the CPU emulator."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

from agent.kernels import sources
from agent.providers.catalogue.matching import Kernel

GUEST = Path(__file__).with_name("numerics_device.py")


def test_kernels_agree_with_torch_in_float64(tmp_path: Path) -> None:
    """Ranks, groups, dims, eps, affine or not, a large offset, odd sizes, strides, many slices, no data."""
    folder = tmp_path / "candidates"
    folder.mkdir()
    for name in get_args(Kernel):
        # In float32 alone: three storage types take three times as long to compile.
        begin = 'CUDA_SOURCE = r"""\n'
        text = sources.candidate(name).replace(begin, f"{begin}#define KW_DTYPES 1\n")
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(GUEST), str(folder), str(tmp_path / "cache")],
        capture_output=True, text=True, check=False, timeout=800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert report["idle"] == []
    assert report["findings"] == []
    assert report["compared"] > 250
