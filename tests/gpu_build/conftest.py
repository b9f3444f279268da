"""The prepared toolchain of the slim build, in the user's cache as in real use."""

import pytest

from agent import gpu_build
from agent.gpu_build import GpuToolchain, Unavailable


@pytest.fixture(scope="session")
def toolchain() -> GpuToolchain:
    try:
        return gpu_build.prepare()
    except Unavailable as error:
        pytest.skip(f"no fast builds on this machine: {error}")
