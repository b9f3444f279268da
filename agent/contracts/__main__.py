"""Write or compare all generated files: `python -m agent.contracts [--check]`."""

import argparse
import re
import sys
from pathlib import Path

from agent.contracts import view
from agent.contracts.declarations import Header, Unreadable

AGENT = Path(__file__).resolve().parents[1]
CPP = AGENT / "emulator" / "cpp"
INCLUDE, RUNTIME, FULL = CPP / "include" / "kw", CPP / "runtime", CPP / "full" / "include" / "kw"
GENERATED = AGENT / "torch_shim"
"""Folder of the generated modules, which is copied to the candidate's process so both sides read them."""
COMMAND = "python -m agent.contracts"
_TORCH_MEMORY = "kw_serve_torch"
_VERSION = "KW_ABI_VERSION"
_ENTRY = re.compile(r"template <class \w+>\s*void (launch_entry)\(void\* \w+\)")
_FOR_CPP = ("DeviceType", "Layout")
_KIND = re.compile(r'FindingKind k\w+\{"([a-z-]+)", (?:true|false)\};')
_HEAD = f'''# ruff: noqa: E501
# fmt: off
"""Python view of the emulator's C and C++ interfaces. Generated: do not edit.

Written by `{COMMAND}` from kw/runtime.h, kw/host_abi.h, kw/host_scalars.h, kw/device_limits.h,
kw/torch_bridge.h, kw/device.h and runtime/*.h. It imports the standard library alone.
"""

import ctypes
import enum
from typing import Any

Prototypes = dict[str, tuple[Any, list[Any]]]


def declare(library: ctypes.CDLL, prototypes: Prototypes) -> None:
    """Set the types of a loaded library's functions. Raises AttributeError if the library lacks one."""
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments'''


def generated() -> dict[Path, str]:
    """Return the required content of each generated file."""
    abi = INCLUDE / "host_abi.h"
    said = abi.read_text(encoding="utf-8")
    version = view.digest(Header(abi), _VERSION)
    stamped = re.sub(rf"(?m)^#define {_VERSION} .*$", f"#define {_VERSION} {version:#010x}", said)
    views = {"c_abi.py": _module(version), "finding_kinds.py": _finding_kinds(RUNTIME / "finding_kinds.h")}
    return {abi: stamped} | {GENERATED / name: text for name, text in views.items()}


def _module(version: int) -> str:
    runtime, abi = Header(INCLUDE / "runtime.h"), Header(INCLUDE / "host_abi.h")
    scalars, bridge = Header(INCLUDE / "host_scalars.h"), Header(FULL / "torch_bridge.h")
    limits, words = Header(INCLUDE / "device_limits.h"), Header(RUNTIME / "launch_words.h")
    abi.constants[_VERSION] = version
    structs = [*runtime.structs, *abi.structs]
    served = [function for function in runtime.functions if function.name == _TORCH_MEMORY]
    own = [function for function in runtime.functions if function.name != _TORCH_MEMORY]
    parts = [
        [_HEAD, "", "", "# kw/runtime.h, kw/host_abi.h, kw/torch_bridge.h"],
        view.constants(runtime.constants | abi.constants | bridge.constants),
        view.enums(enum for enum in runtime.enums if not enum.name),
        ["", "# kw/device_limits.h"],
        view.constants(limits.constants),
        view.enums(enum for header in (abi, scalars) for enum in header.enums if enum.name not in _FOR_CPP),
        ["", "", "# Prefix of the symbols through which kw/device.h enters an extension to launch."],
        [f'LAUNCH_ENTRY = "{view.mangled("kw", _entry(INCLUDE / "device.h"))}"'],
        ["", "# Reasons to refuse a launch (runtime/launch_words.h), as patterns for their numbers."],
        view.patterns("REFUSED_", words.texts),
        *_json_formats(Header(RUNTIME / "json_formats.h")),
        view.structures(structs),
        view.prototypes("RUNTIME", "Functions of libkw_runtime.", own, structs),
        view.prototypes("SERVES_TORCH", "Functions of the library TORCH_MEMORY.", served, structs),
        view.prototypes("EXTENSION", "Functions of extensions with slim headers.", abi.functions, structs),
        view.prototypes("BRIDGE", "Functions of extensions with torch headers.", bridge.functions, structs),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _entry(device: Path) -> str:
    found = _ENTRY.findall(device.read_text(encoding="utf-8"))
    if len(found) != 1:
        raise Unreadable(f"{device.name}: not one template void launch_entry(void*)")
    return str(found[0])


def _json_formats(formats: Header) -> list[list[str]]:
    events = {name: text for name, text in formats.texts.items() if name.endswith("Event")}
    lines = ["", "# Keys of each line in the runtime's record (runtime/json_formats.h), by the line's `do`."]
    lines += ["RECORD_EVENTS: dict[str, frozenset[str]] = {"]
    for text in events.values():
        keys = ", ".join(f'"{key}"' for key in view.json_keys(text))
        lines.append(f'    "{view.text_of_json(text, "do")}": frozenset(({keys},)),')
    return [[*lines, "}"]]


def _finding_kinds(header: Path) -> str:
    kinds = _KIND.findall(header.read_text(encoding="utf-8"))
    if len(kinds) != header.read_text(encoding="utf-8").count("inline constexpr"):
        raise Unreadable(f"{header.name}: a kind of finding in another form")
    lines = [
        '"""Every kind of finding that the emulator gives. Generated: do not edit.',
        "",
        f"Written by `{COMMAND}` from runtime/{header.name}.",
        '"""',
        "",
        "import enum",
        "",
        "",
        "class FindingKind(enum.StrEnum):",
        *(f'    {kind.replace("-", "_").upper()} = "{kind}"' for kind in kinds),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog=COMMAND, description="Generates Python's view of the C headers.")
    options.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file differs")
    check = options.parse_args(arguments).check
    differing = [
        path for path, text in generated().items() if not path.is_file() or path.read_text("utf-8") != text
    ]
    for path in differing:
        if check:
            sys.stderr.write(f"{path} is not what the headers say: run {COMMAND}\n")
        else:
            path.write_text(generated()[path], encoding="utf-8")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
