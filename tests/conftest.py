"""Options and settings of the whole test suite."""

import os
import sys
from collections.abc import Iterator

import hypothesis
import pytest

# As in the judge's processes (`config.child_environment`). Torch threads that wait actively use several times
# the CPU time of the work itself, which slows workers on the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Use the same examples everywhere, and no deadline that a busy machine would miss.
hypothesis.settings.load_profile("ci")

pytest.register_assert_rewrite(
    "device_library", "kernels.device.plain_library", "kernels.device.group_norm_library"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-kernels",
        action="store_true",
        help="run the corpora whole and in every mode, not in the samples that each change runs",
    )
    parser.addoption(
        "--on-gpu",
        action="store_true",
        help="launch the right kernels of tests/emulator/modern on a GPU, not on the emulator",
    )
    parser.addoption(
        "--fuzz-minutes",
        type=float,
        default=0.0,
        help="how long to try what a hostile process might write (make fuzz: 10)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--on-gpu"):
        from modern_kernels import Checked

        Checked.on_gpu = True


LONGEST_FIRST = ("e2e", "foreign", "emulator", "integrity", "harness", "docs", "kernels")
"""Folders with files that take minutes. They start first, so that none runs alone at the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(config.rootpath / "tests").parts[0]
        return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=place)


@pytest.fixture(scope="module", autouse=True)
def settled_runtime() -> None:
    """Reset the emulator's runtime before each file, because files in one process share it."""
    from device_library import settle

    settle()


@pytest.fixture(autouse=True)
def no_arrays_of_earlier_tests() -> Iterator[None]:
    """Free the device arrays of each test: thousands of tests share a process."""
    yield
    library = sys.modules.get("device_library")
    if library is not None:
        library.forget_arrays()
