"""Lines of findings, from the debug information of a library that was built here and of no other."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.emulator.compile import symbolize

HEADER = "static inline int inner(const int* p) { return *p * 3; }\n"
SOURCE = """#line 7 "candidate.py"
extern "C" int outer(const int* p) {
    return inner(p);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("library")
    (place / "inner.h").write_text(HEADER)
    (place / "unit.cpp").write_text(SOURCE)
    options = ["-O2", "-g1", "-shared", "-fPIC", "-include", "inner.h"]
    subprocess.run(["g++", *options, "unit.cpp", "-o", "built.so"], check=True, cwd=place)
    return place / "built.so"


@pytest.fixture(scope="module")
def offset(library: Path) -> int:
    """A return address one byte into `outer`."""
    listed = subprocess.run(["nm", str(library)], capture_output=True, text=True, check=True).stdout
    [address] = [line.split()[0] for line in listed.splitlines() if line.endswith(" T outer")]
    return int(address, 16) + 1


def finding(library: Path | str, offset: object, **more: object) -> dict[str, Any]:
    place = {"library": str(library), "offset": offset}
    return {
        "kind": "k",
        "message": "m {other}",
        "kernel": "f",
        "line": None,
        "count": 2,
        "place": place,
    } | more


def test_the_line_is_the_candidates_even_in_an_inlined_function(library: Path, offset: int) -> None:
    place = {"library": str(library), "offset": offset}
    [found] = symbolize.resolve([finding(library, offset, other=place)], [library])
    assert found["line"] == 8
    assert found["message"] == "m line 8"
    assert "place" not in found
    assert "other" not in found


def test_one_fault_in_one_line_is_one_finding(library: Path, offset: int) -> None:
    twice = [finding(library, offset), finding(library, offset)]
    other_kernel = finding(library, offset, kernel="g")
    found = symbolize.resolve([*twice, other_kernel], [library])
    assert [(f["kernel"], f["count"]) for f in found] == [("f", 4), ("g", 2)]


def test_a_library_that_was_not_built_here_is_not_read(library: Path, offset: int) -> None:
    found = symbolize.resolve([finding(library, offset), finding("/etc/passwd", offset)], [])
    assert [f["line"] for f in found] == [None, None]
    assert found[0]["message"] == "m another line"


@pytest.mark.parametrize("claim", [None, "text", 3, {"kind": "k"}, [None, 3, "text"]])
def test_what_is_no_list_of_findings_is_dropped(claim: object) -> None:
    assert symbolize.resolve(claim, []) == []


@pytest.mark.parametrize(
    "place", [3, {}, {"library": ["x"], "offset": 1}, {"library": "x", "offset": "--help"}]
)
def test_a_place_that_is_none_leaves_the_finding(library: Path, place: object) -> None:
    [found] = symbolize.resolve([finding(library, 0, place=place, line=5)], [library])
    assert (found["line"], found["count"]) == (5, 2)
