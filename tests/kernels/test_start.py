"""Importing the library costs nothing, and its names are what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

import agent.kernels


def _said(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_no_torch(tmp_path: Path) -> None:
    heavy = "('torch', 'numpy', 'pydantic')"
    assert (
        _said(f"import sys, agent.kernels; print([n for n in {heavy} if n in sys.modules])", tmp_path) == "[]"
    )


def test_importing_a_kernel_builds_nothing_and_starts_no_cuda(tmp_path: Path) -> None:
    """And importing the folder of a kernel does not put it in the place of the function."""
    code = (
        "import os, pathlib\n"
        "os.environ['AGENT_CACHE_DIR'] = 'cache'\n"
        "import agent.kernels.group_norm.layout\n"
        "from agent.kernels import group_norm, GroupNorm, info\n"
        "import torch\n"
        "info()\n"
        "print(torch.cuda.is_initialized(), pathlib.Path('cache').exists(), type(group_norm).__name__)"
    )
    assert _said(code, tmp_path) == "False False function"


def test_every_exported_name_is_there() -> None:
    for name in agent.kernels.__all__:
        assert getattr(agent.kernels, name).__name__ == name
    with pytest.raises(AttributeError, match="no 'dropout'; it has"):
        _ = agent.kernels.dropout
