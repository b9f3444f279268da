"""Composed kernels compute what their references do, at batch sizes they were not composed from."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SAMPLE = ("long_halves", "network", "norms", "reductions")


@pytest.mark.parametrize("path", sorted((HERE / "references").glob("*.py")), ids=lambda path: path.stem)
def test_composed_kernels_agree_with_torch_in_float64(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if path.stem not in SAMPLE and not request.config.getoption("--all-kernels"):
        pytest.skip("not in the sample; --all-kernels runs it")
    folder = tmp_path / "references"
    folder.mkdir()
    shutil.copy(path, folder)
    guest = [sys.executable, str(HERE / "composed_device.py"), str(folder), str(tmp_path / "cache")]
    done = subprocess.run(guest, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert report["findings"] == []
    assert report["compared"] >= 6
