"""The prepared toolchain, in the user's cache as in real use."""

import pytest

from agent.emulator import nvcc
from agent.emulator import toolchain as toolchain_module
from agent.emulator.toolchain import Toolchain


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return toolchain_module.prepare()


@pytest.fixture(scope="session")
def nvidia() -> nvcc.Nvcc:
    found = nvcc.find()
    if found is None:
        pytest.skip("no nvcc on this machine: pip install 'kernelwright[nvcc]'")
    return found
