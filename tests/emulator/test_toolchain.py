"""Preparing once per user, mending what is damaged, and saying what is missing."""

from pathlib import Path

import pytest

from agent.build import cuda_headers
from agent.build.toolchain import CPP, Toolchain
from agent.emulator.compile import toolchain as toolchain_module
from agent.errors import EnvironmentFault


@pytest.fixture
def small_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the emulator's own, which every other test here compiles: three times they take minutes."""
    for name in ("include/empty.h", "runtime/runtime.cpp", "host/library.cpp", "torch/allocator.cpp"):
        source = tmp_path / "sources" / name
        source.parent.mkdir(parents=True)
        source.write_text("int kw_nothing;\n")
    monkeypatch.setattr(toolchain_module, "CPP", tmp_path / "sources")
    preludes = {"host": "#include <cstdint>\n", "device": "#include <cstdint>\n"}
    monkeypatch.setattr(toolchain_module, "_PRELUDES", preludes)


@pytest.mark.usefixtures("small_sources")
def test_preparation_is_done_once_and_damage_is_mended(tmp_path: Path) -> None:
    steps: list[str] = []

    def progress(step: str, number: int, total: int) -> None:
        steps.append(f"{step} {number}/{total}")

    made = toolchain_module.prepare(tmp_path, progress=progress)
    named = ["headers for device code", "headers for the runtime", "headers for host code"]
    named += ["library for host code", "emulator runtime", "memory of torch's tensors"]
    # Several run at once, so that two may be told the other way round.
    assert sorted(steps) == sorted(f"{step} {number}/6" for number, step in enumerate(named, 1))
    assert toolchain_module.prepare(tmp_path, progress=progress) == made
    assert len(steps) == 6
    with made.runtime.open("ab") as damaged:
        damaged.write(b"x")
    assert toolchain_module.prepare(tmp_path, progress=progress) == made
    assert len(steps) == 12
    (made.directory / "manifest.json").unlink()  # as after a preparation that was killed
    assert toolchain_module.prepare(tmp_path, progress=progress) == made
    assert len(steps) == 18


@pytest.mark.usefixtures("small_sources")
def test_sources_that_change_meanwhile_are_not_kept_under_the_name_of_others(tmp_path: Path) -> None:
    def update(step: str, number: int, total: int) -> None:
        (tmp_path / "sources" / "runtime" / "runtime.cpp").write_text("int kw_something;\n")

    with pytest.raises(EnvironmentFault, match="sources changed while it was being prepared: run it again"):
        toolchain_module.prepare(tmp_path, progress=update)
    (left,) = (path for path in (tmp_path / "emulator").iterdir() if path.is_dir())
    assert not (left / "manifest.json").exists()
    assert toolchain_module.prepare(tmp_path).directory != left


def test_precompiled_headers_name_files_beside_them(toolchain: Toolchain) -> None:
    """Another installation may have prepared them: its own files would not be known in messages here."""
    names = (toolchain.prelude("host").with_suffix(".h.gch")).read_bytes()
    assert f"{toolchain.directory}/include/kw/host_bind.h".encode() in names
    assert str(CPP).encode() not in names


def test_missing_compiler_and_headers_say_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(EnvironmentFault, match="apt-get install g"):
            toolchain_module.prepare(tmp_path)
    monkeypatch.setattr(cuda_headers, "_of_wheels", lambda: iter(()))
    monkeypatch.setattr(cuda_headers, "_TOOLKIT", tmp_path)
    with pytest.raises(EnvironmentFault, match="pip install 'nvidia-cuda-runtime"):
        toolchain_module.prepare(tmp_path)


def test_unwritable_cache_is_an_environment_fault(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(EnvironmentFault, match="cannot prepare the emulator"):
        toolchain_module.prepare(blocked)
