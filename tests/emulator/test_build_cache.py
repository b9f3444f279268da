"""What is built is kept by its content, unit by unit, and damage is mended."""

from pathlib import Path

from build_requests import DECLARED, TWICE, request

from agent.build.toolchain import Toolchain
from agent.emulator.compile import build


def test_second_build_comes_from_the_cache(toolchain: Toolchain, tmp_path: Path) -> None:
    first = build.extension(toolchain, request(DECLARED, TWICE), tmp_path)
    assert first.library is not None
    written = first.library.stat().st_mtime_ns
    again = build.extension(toolchain, request(DECLARED, TWICE), tmp_path)
    assert again.library == first.library
    assert first.library.stat().st_mtime_ns == written
    first.library.unlink()
    mended = build.extension(toolchain, request(DECLARED, TWICE), tmp_path)
    assert mended.library is not None
    assert mended.library.is_file()


def test_only_what_changed_is_compiled_again(toolchain: Toolchain, tmp_path: Path) -> None:
    """Objects are kept by unit, with what the compiler said of each."""
    warned = DECLARED + "\n#warning kept with the object"
    first = build.extension(toolchain, request(warned, TWICE), tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "objects").glob("*/main.o")}
    assert len(kept) == 1
    changed = build.extension(toolchain, request(warned, TWICE.replace("2 *", "3 *")), tmp_path)
    assert changed.library not in (None, first.library)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "objects").glob("*/main.o")} == kept
    assert len(list((tmp_path / "objects").glob("*/cuda.o"))) == 2
    assert any("kept with the object" in text for text in first.warnings)
    assert changed.warnings == first.warnings


def test_damaged_object_is_made_again(toolchain: Toolchain, tmp_path: Path) -> None:
    assert build.extension(toolchain, request(DECLARED, TWICE), tmp_path).library is not None
    [kept] = (tmp_path / "objects").glob("*/main.o")
    size = kept.stat().st_size
    kept.write_bytes(b"cut")
    assert build.extension(toolchain, request(DECLARED, TWICE.replace("2 *", "4 *")), tmp_path).library
    assert kept.stat().st_size == size
