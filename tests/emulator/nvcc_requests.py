"""Prints, as JSON, what each given program asks of load_inline; builds nothing. Needs torch alone.

argv: the directory of the package torch_shim, then program files.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType


def main() -> None:
    place, *programs = sys.argv[1:]
    sys.path.insert(0, place)
    inline = importlib.import_module("torch_shim.inline")
    asked = []

    def record(request: dict[str, object]) -> dict[str, object]:
        asked.append({"program": program, "build": request})
        return {"library": "none"}

    def unbuilt(name: str, library: str) -> ModuleType:
        return ModuleType(name)

    inline.extension.module = unbuilt
    inline.patch(record)
    for program in programs:
        spec = importlib.util.spec_from_file_location(Path(program).stem, program)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    print(json.dumps(asked))


main()
