"""The shipped kernels compute what torch does: every path of each, on the CPU emulator."""

import json
import subprocess
import sys
from pathlib import Path

from agent.kernels import sources

GUEST = Path(__file__).with_name("numerics_guest.py")


def test_kernels_agree_with_torch_in_float64(tmp_path: Path) -> None:
    """Ranks, groups, dims, eps, affine or not, a large offset, odd sizes, strides, many slices, no data."""
    folder = tmp_path / "candidates"
    folder.mkdir()
    for name in sources.NAMES:
        (folder / f"{name}.py").write_text(sources.candidate(name), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(GUEST), str(folder), str(tmp_path / "cache")],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert report["idle"] == []
    assert report["findings"] == []
    assert report["compared"] > 250
