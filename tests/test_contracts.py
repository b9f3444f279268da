"""Tests that the generated Python views match the current C++ headers."""

import ctypes
import dataclasses
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from device_library import build_runtime, cuda_include

from agent.build.toolchain import CPP
from agent.contracts import __main__ as contracts
from agent.contracts import view
from agent.contracts.declarations import Function, Header, Unreadable
from agent.diagnosis.runtime import cuda_errors
from agent.emulator.replay import events
from agent.torch_shim import c_abi

STRUCTS = {
    "kw_launch_request": c_abi.CLaunchRequest,
    "kw_tensor": c_abi.CTensor,
    "kw_value": c_abi.CValue,
    "kw_host": c_abi.CHost,
}
ANONYMOUS = {"payload": "integer"}
"""Union members that stand for a field of the mirrored structures."""


def header(folder: Path, text: str) -> Header:
    path = folder / "some.h"
    path.write_text(text)
    return Header(path)


def test_every_view_is_that_of_the_present_headers() -> None:
    differing = [path.name for path, text in contracts.generated().items() if path.read_text() != text]
    assert differing == [], f"run {contracts.COMMAND}"


def test_the_check_fails_where_a_view_differs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    view_file = tmp_path / "c_abi.py"
    monkeypatch.setattr(contracts, "generated", lambda: {view_file: "MAX_THREADS = 1024\n"})
    assert contracts.main(["--check"]) == 1
    assert not view_file.exists()
    assert contracts.main([]) == 0
    assert contracts.main(["--check"]) == 0
    view_file.write_text("MAX_THREADS = 512\n")
    assert contracts.main(["--check"]) == 1


def test_layouts_are_those_that_the_compiler_gives(tmp_path: Path) -> None:
    """Compare the size of every structure and the offset of every field with g++."""
    lines = ['#include "kw/runtime.h"', '#include "kw/host_abi.h"', "#include <cstddef>"]
    for name, mirror in STRUCTS.items():
        lines.append(f"static_assert(sizeof({name}) == {ctypes.sizeof(mirror)});")
        for field, *_ in mirror._fields_:
            place = getattr(mirror, field).offset
            lines.append(f"static_assert(offsetof({name}, {ANONYMOUS.get(field, field)}) == {place});")
    assert len(lines) > 30
    source = tmp_path / "layouts.cpp"
    source.write_text("\n".join(lines) + "\n")
    command = ["g++", "-std=c++17", "-fsyntax-only", f"-I{CPP / 'include'}", f"-isystem{cuda_include()}"]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", [
    "struct kw_a { int64_t x; int32_t y; };", "struct kw_a { int32_t x; int64_t y; int32_t z; };",
    "struct kw_a { int32_t y; int64_t x; };", "struct kw_a { int32_t x; int32_t y[2]; };",
])  # fmt: skip
def test_a_field_that_changes_is_another_view(change: str, tmp_path: Path) -> None:
    before = header(tmp_path, "struct kw_a { int32_t x; int64_t y; };  // a comment\n#define KW_V 0x1\n")
    after = header(tmp_path, change + "\n#define KW_V 0x2\n")
    assert view.structures(before.structs) != view.structures(after.structs)
    assert view.digest(before, "KW_V") != view.digest(after, "KW_V")


def test_comments_and_the_version_itself_are_no_other_version(tmp_path: Path) -> None:
    before = header(tmp_path, "struct kw_a { int32_t x; };\n#define KW_V 0x1\n")
    after = header(tmp_path, "struct kw_a {\n  int32_t x;  // of it\n};\n#define KW_V 0x2\n")
    assert view.digest(before, "KW_V") == view.digest(after, "KW_V")


def test_forms_of_declarations(tmp_path: Path) -> None:
    found = header(
        tmp_path,
        """
#define KW_LEAST 4
enum { KW_A, KW_B = 1 << KW_LEAST, KW_C };
enum kw_colour : int32_t { KW_RED = 7, KW_BLUE };
constexpr size_t kLimit = 48 * 1024;
typedef struct kw_s { size_t size; int32_t (*call)(const char* name, void*); double x, y; } kw_s;
[[noreturn]] void kw_end(const kw_s* of, unsigned line);
constexpr char kWords[] = "%u of "
    "%zu (all)";
""",
    )
    assert found.constants == {"KW_LEAST": 4, "kLimit": 49152}
    assert [enum.values for enum in found.enums] == [
        {"KW_A": 0, "KW_B": 16, "KW_C": 17}, {"KW_RED": 7, "KW_BLUE": 8},
    ]  # fmt: skip
    [struct] = found.structs
    assert [field.name for field in struct.fields] == ["size", "call", "x", "y"]
    assert isinstance(struct.fields[1], Function)
    [function] = found.functions
    assert (function.result, [p.type for p in function.parameters]) == ("void", ["const kw_s*", "unsigned"])
    assert view.patterns("", found.texts) == [r"WORDS = r'(\d+) of (\d+) \(all\)'"]


@pytest.mark.parametrize("text", [
    "void kw_variadic(const char* format, int (*made)(int));", "enum { KW_A = sizeof(int) };",
    "struct kw_a { std::vector<int> x; };", "void kw_array(int x[3]);",
])  # fmt: skip
def test_what_is_not_understood_is_refused(text: str, tmp_path: Path) -> None:
    def read() -> list[str]:
        found = header(tmp_path, text + "\n")
        return [*view.structures(found.structs), *view.prototypes("F", "", found.functions, found.structs)]

    with pytest.raises(Unreadable):
        read()


def test_the_runtime_has_every_function_that_is_declared() -> None:
    c_abi.declare(ctypes.CDLL(str(build_runtime())), c_abi.RUNTIME)


def test_errors_of_cuda_are_known_by_the_texts_that_the_runtime_gives() -> None:
    runtime = ctypes.CDLL(str(build_runtime()))
    runtime.cudaGetErrorString.restype = ctypes.c_char_p
    told = {
        text: runtime.cudaGetErrorString(error.code).decode() for text, error in cuda_errors._ERRORS.items()
    }
    known = {text: given for text, given in told.items() if given != "unknown error"}
    assert known == {text: text for text in known}
    assert len(known) >= 8


def test_the_reader_of_records_knows_the_events_that_the_runtime_writes() -> None:
    known = {kind.__name__.lower(): kind for kind in get_args(events.Event)}
    told = {
        kind: {entry.metadata.get("key", entry.name) for entry in dataclasses.fields(known[kind])}
        for kind in c_abi.RECORD_EVENTS
    }
    assert told == {kind: set(keys) - {"do"} for kind, keys in c_abi.RECORD_EVENTS.items()}
