"""What a compiler sees of the machine while it reads a candidate's code."""

import subprocess
from pathlib import Path

import pytest
from sandbox.boxes import running

from agent.build import compiler
from agent.sandbox import Box, Limits, enclosed, levels, strongest

GXX = "/usr/bin/g++"

pytestmark = pytest.mark.skipif(
    strongest().name == "process", reason="this machine gives an ordinary process no namespaces"
)


def compiled(text: str, folder: Path, sees: tuple[Path, ...] = ()) -> compiler.Outcome:
    scratch = folder / "scratch"
    scratch.mkdir()
    (scratch / "main.cpp").write_text(text)
    [outcome] = compiler.run([[GXX, "-c", "main.cpp", "-o", "main.o"]], scratch, 60, sees)
    return outcome


def test_an_object_is_made_and_taken(tmp_path: Path) -> None:
    assert compiled("#include <vector>\nint f() { return 1; }", tmp_path).succeeded
    kept = compiler.take(tmp_path / "scratch" / "main.o", tmp_path / "kept.o")
    assert kept.read_bytes() == (tmp_path / "scratch" / "main.o").read_bytes()
    assert kept.stat().st_uid == tmp_path.stat().st_uid


def test_a_link_in_place_of_an_object_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "main.o").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        compiler.take(tmp_path / "main.o", tmp_path / "kept.o")


@pytest.mark.parametrize("place", ["/etc/shadow", "{canary}", "{package}"])
def test_the_assembler_finds_no_file_of_the_user(place: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("secret")
    place = place.format(canary=canary, package=levels.__file__)
    outcome = compiled(f'asm(".incbin \\"{place}\\"");', tmp_path)
    assert not outcome.succeeded
    assert f"file not found: {place}" in outcome.messages


def test_what_it_is_to_see_it_cannot_write(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.mkdir(mode=0o777)
    (headers / "given.h").write_text("int given;")
    text = f'#include "{headers}/given.h"\nint f() {{ return given; }}'
    assert compiled(text, tmp_path, (headers,)).succeeded
    command = ["/bin/sh", "-c", f"echo x > {headers}/new || echo refused > said"]
    box = Box(tmp_path / "scratch", sees=(headers,))
    subprocess.run(enclosed(command, box, Limits()), check=True)
    assert (tmp_path / "scratch" / "said").read_text() == "refused\n"
    assert [path.name for path in headers.iterdir()] == ["given.h"]


def test_a_command_that_takes_too_long_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    marker = f"slow-{tmp_path.name}"
    command = ["/bin/sh", "-c", "(sleep 60) & sleep 60", marker]
    [outcome] = compiler.run([command], tmp_path, 1, ())
    assert outcome.failure == "timeout"
    assert running(marker) == []
