"""A key made of code changes with every module that the code imports."""

from pathlib import Path

import pytest

from agent.harness import disk_cache


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "agent"
    (folder / "part").mkdir(parents=True)
    (folder / "first.py").write_text("import json\nfrom agent.part import second\n")
    (folder / "part/__init__.py").write_text("")
    (folder / "part/second.py").write_text("from .third import x\n")
    (folder / "part/third.py").write_text("def x():\n    import agent.fourth\n")
    (folder / "fourth.py").write_text("import agent.first\n")
    (folder / "beside.py").write_text("")
    monkeypatch.setattr(disk_cache, "_ROOT", tmp_path)
    disk_cache.code_digest.cache_clear()
    return folder


@pytest.mark.parametrize("changed", ["first", "part/__init__", "part/second", "part/third", "fourth"])
def test_a_change_of_what_is_imported_is_another_digest(package: Path, changed: str) -> None:
    before = disk_cache.code_digest("agent.first")
    (package / f"{changed}.py").write_text((package / f"{changed}.py").read_text() + "Y = 1\n")
    disk_cache.code_digest.cache_clear()
    assert disk_cache.code_digest("agent.first") != before


def test_what_is_not_imported_does_not_count(package: Path) -> None:
    assert "agent.beside" not in disk_cache.imported_files("agent.first")
    with pytest.raises(FileNotFoundError, match=r"agent\.nothing"):
        disk_cache.imported_files("agent.nothing")


def test_admission_is_known_by_the_code_that_probes() -> None:
    names = {
        name.rpartition(".")[2]
        for name in disk_cache.imported_files("agent.harness.mutation.mutation_testing")
    }
    assert {
        "mutation_testing", "mutants", "equivalence", "lost_terms", "input_distributions", "tolerance",
        "reference", "summation", "summation_order", "protocol",
    } <= names  # fmt: skip
