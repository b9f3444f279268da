"""The prepared toolchain, in the user's cache as in real use."""

import pytest

from agent.build import nvcc
from agent.build.toolchain import Toolchain
from agent.emulator.compile import toolchain as toolchain_module


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return toolchain_module.prepare()


@pytest.fixture(scope="session")
def nvidia() -> nvcc.Nvcc:
    found = nvcc.find()
    if found is None:
        pytest.skip("no nvcc on this machine: pip install 'kernelwright[nvcc]'")
    return found
