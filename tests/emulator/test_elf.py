"""What we read in an object file is what binutils reads there."""

import subprocess
from pathlib import Path

import pytest

from agent.build import elf

SOURCE = """
extern int elsewhere(void);
static int hidden = 3, empty;
int shown = 4;
__attribute__((weak)) int shared = 5;
__attribute__((weak)) int function(void) { return elsewhere() + ++hidden + ++empty; }
extern const int constant = 6;
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("object")
    (folder / "unit.cpp").write_text(f'extern "C" {{ {SOURCE} }}')
    subprocess.run(["g++", "-O1", "-fPIC", "-c", "unit.cpp", "-o", "unit.o"], cwd=folder, check=True)
    subprocess.run(["g++", "-shared", "unit.o", "-o", "unit.so"], cwd=folder, check=True)
    return folder


def test_symbols_of_an_object(compiled: Path) -> None:
    found = {symbol.name: symbol for symbol in elf.symbols((compiled / "unit.o").read_bytes())}
    listed = subprocess.run(["nm", "unit.o"], cwd=compiled, capture_output=True, text=True, check=True).stdout
    kinds = {row.split()[-1]: row.split()[-2] for row in listed.splitlines()}
    assert set(found) == set(kinds)
    assert {name for name, symbol in found.items() if not symbol.is_defined} == {
        name for name, kind in kinds.items() if kind == "U"
    }
    assert {name for name, s in found.items() if s.is_local and s.is_variable} == {"_ZL6hidden", "_ZL5empty"}
    assert {name for name, s in found.items() if not s.is_local and s.is_variable} == {"shown", "shared"}


def test_imports_of_a_library(compiled: Path) -> None:
    found = elf.symbols((compiled / "unit.so").read_bytes(), dynamic=True)
    assert "elsewhere" in {symbol.name for symbol in found if not symbol.is_defined}


@pytest.mark.parametrize(
    "image",
    [b"", b"no file of that kind", b"\x7fELF\x02" + b"\xff" * 90],
    ids=["empty", "text", "offsets beyond it"],
)
def test_what_is_no_such_file(image: bytes) -> None:
    with pytest.raises(elf.NotElf):
        list(elf.symbols(image))
