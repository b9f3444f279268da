"""Runs candidate programs as a judged process would: it has torch and the package torch_shim, and no `agent`.

argv: the directory of the package torch_shim, the runtime library, then program files. Requests to build go
to stdout as JSON lines and are answered on stdin; the last line is the list of results.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path


def main() -> None:
    place, runtime, *programs = sys.argv[1:]
    sys.path.insert(0, place)
    torch_shim = importlib.import_module("torch_shim")
    torch = importlib.import_module("torch")

    def ask(request: dict[str, object]) -> dict[str, object]:
        print(json.dumps({"build": request, "program": current}), flush=True)
        answer: dict[str, object] = json.loads(sys.stdin.readline())
        return answer

    def equal(ours: object, expected: object) -> bool:
        if not isinstance(expected, torch.Tensor):
            return bool(ours == expected)
        assert isinstance(ours, torch.Tensor)
        coarse = expected.dtype in (torch.float16, torch.bfloat16)
        same = ours.shape == expected.shape and ours.dtype == expected.dtype
        tolerances = (2e-2, 2e-2) if coarse else (1e-4, 1e-5)
        return bool(same and torch.allclose(ours.cpu().double(), expected.cpu().double(), *tolerances))

    torch_shim.install(runtime, ask)
    torch_shim.check(True)
    torch.set_default_device("cuda")
    torch.manual_seed(0)
    results = {}
    for current in programs:
        spec = importlib.util.spec_from_file_location(Path(current).stem, current)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        checked = [equal(ours, expected) for ours, expected in module.cases()]
        refused = []
        for call, kind, words in getattr(module, "refusals", list)():
            try:
                call()
                refused.append("no error")
            except kind as error:
                refused.append("" if words in str(error) else str(error))
        if hasattr(module, "unwritten"):
            torch_shim.check_outputs(module.unwritten())
        results[Path(current).stem] = {
            "cases": checked,
            "refusals": refused,
            "launches": torch_shim.launches(),
            "findings": torch_shim.findings(),
        }
    foreign = [name for name in sys.modules if name.split(".")[0] in ("agent", "pydantic", "typer", "openai")]
    print(json.dumps({"results": results, "foreign": foreign}), flush=True)


if __name__ == "__main__":
    main()
