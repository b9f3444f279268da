"""A key made of code changes with what that imports; what one process makes, others wait for."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from agent.harness import disk_cache
from agent.records import Record

LONG_S = 60.0
"""A thread that waits for longer than this has hung."""
HOLD = """
import sys, time
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
print(flush=True)
time.sleep(600)
"""


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


class Number(Record):
    value: int


class Making:
    """Makes a record once it is told to, and counts how often."""

    def __init__(self, value: int = 1) -> None:
        self.value, self.times = value, 0
        self.begun, self.allowed = threading.Event(), threading.Event()

    def __call__(self) -> Number:
        self.times += 1
        self.begun.set()
        assert self.allowed.wait(LONG_S)
        return Number(value=self.value)


def test_who_comes_second_waits_and_takes_what_the_first_made(tmp_path: Path) -> None:
    file, making, waits = tmp_path / "part" / "key.json", Making(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(disk_cache.cached, file, Number, making)
        assert making.begun.wait(LONG_S)
        second = pool.submit(disk_cache.cached, file, Number, making, waits.set)
        assert waits.wait(LONG_S), "the wait is announced"
        making.allowed.set()
        assert first.result() == second.result() == Number(value=1)
    assert making.times == 1
    assert [found.name for found in file.parent.iterdir()] == ["key.json"], "no lock is left"


def test_who_waited_makes_it_where_the_first_failed(tmp_path: Path) -> None:
    file, waits, fails, making = tmp_path / "key.json", threading.Event(), Making(), Making(2)
    making.allowed.set()

    def failing() -> Number:
        fails()
        raise RuntimeError("no reference")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(disk_cache.cached, file, Number, failing)
        assert fails.begun.wait(LONG_S)
        second = pool.submit(disk_cache.cached, file, Number, making, waits.set)
        assert waits.wait(LONG_S)
        fails.allowed.set()
        assert second.result() == Number(value=2)
    assert isinstance(first.exception(), RuntimeError)


def test_a_holder_that_was_killed_holds_up_nobody(tmp_path: Path) -> None:
    file, making = tmp_path / "key.json", Making()
    waits: list[int] = []
    making.allowed.set()
    command = [sys.executable, "-c", HOLD, str(file.with_suffix(".lock"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Timeout):
            FileLock(file.with_suffix(".lock")).acquire(timeout=0)
        holder.kill()
    assert disk_cache.cached(file, Number, making, lambda: waits.append(1)) == Number(value=1)
    assert waits == []


def test_a_cache_that_cannot_be_written_keeps_nothing_and_fails_nobody(tmp_path: Path) -> None:
    (tmp_path / "part").write_text("a file where a folder belongs")
    making = Making()
    making.allowed.set()
    for _ in range(2):
        assert disk_cache.cached(tmp_path / "part" / "key.json", Number, making) == Number(value=1)
    assert making.times == 2


def test_a_damaged_record_is_made_again(tmp_path: Path) -> None:
    file, making = tmp_path / "key.json", Making()
    making.allowed.set()
    file.write_text("{")
    assert disk_cache.cached(file, Number, making) == Number(value=1)
    assert disk_cache.read(file, Number) == Number(value=1)
