"""What a library is asked once, and what each time."""

import subprocess
from pathlib import Path

import pytest

from agent.kernels import binding
from agent.kernels.binding import Library

SOURCE = """
extern "C" {
static long asked = 0;
long workspace(const char*) { return ++asked; }
const char* error_text(int) { return ""; }
}
"""


@pytest.fixture
def library(tmp_path: Path) -> Library:
    (tmp_path / "counting.cpp").write_text(SOURCE)
    made = tmp_path / "counting.so"
    command = ["g++", "-shared", "-fPIC", "-o", str(made), str(tmp_path / "counting.cpp")]
    subprocess.run(command, check=True)
    return Library("counting", made)


def test_calls_alike_are_asked_once(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "MOST_REMEMBERED", 2)

    def needed(alike: tuple[int, ...] | None) -> int:
        return library.remembered(alike, "workspace", "2q", 1, 2)

    assert [needed((8, 16)), needed((8, 16)), needed((8, 32)), needed((8, 16))] == [1, 1, 2, 1]
    assert [needed(None), needed(None)] == [3, 4]
    assert needed((9, 9)) == 5  # two are known: both are forgotten
    assert needed((8, 16)) == 6
