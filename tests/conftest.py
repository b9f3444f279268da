"""Options of the whole test suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-kernels",
        action="store_true",
        help="run the corpora whole and in every mode, not in the samples that each change runs",
    )
    parser.addoption(
        "--fuzz-minutes",
        type=float,
        default=0.0,
        help="how long to try what a hostile process might write (make fuzz: 10)",
    )
