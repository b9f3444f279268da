"""The prepared toolchain, in the user's cache as in real use."""

import pytest

from agent.emulator import toolchain as toolchain_module
from agent.emulator.toolchain import Toolchain


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return toolchain_module.prepare()
