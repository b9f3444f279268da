"""Options of the whole test suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-kernels",
        action="store_true",
        help="run the emulator's corpus in every mode, not in the sample that each change runs",
    )
