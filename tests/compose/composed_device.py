"""Runs in a process of its own: composed kernels on the emulator against their references in float64.

Prints one line of JSON: how many results were compared, those that differ, and what the emulator found. Each
file is composed from two batch sizes and run at a third as well.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import torch

from agent import torch_shim
from agent.build import build_request
from agent.compose.composing import composed
from agent.emulator.compile import build, toolchain

NEAR = {
    torch.float16: 2e-3, torch.bfloat16: 1.6e-2,
    **dict.fromkeys((torch.float32, torch.int64, torch.int32, torch.bool), 3e-5),
}  # fmt: skip


def at(source: str, batch: int) -> str:
    return re.sub(r"^BATCH = \d+$", f"BATCH = {batch}", source, flags=re.M)


def written(source: str, name: str) -> str:
    """The composed file; a reference of which no product may be torch's says so."""
    own_products = 'LIBRARY_OPS = "none"' in source
    return composed([at(source, batch) for batch in (6, 3)], name, own_products=own_products)


def compared(path: Path, text: str) -> tuple[int, list[str]]:
    """How many results, and which differ."""
    source = path.read_text("utf-8")
    candidate: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(text, str(path), "exec"), candidate)
    count, wrong = 0, list[str]()
    for batch in (2, 5):
        reference: dict[str, Any] = {"__name__": "reference"}
        exec(compile(at(source, batch), str(path), "exec"), reference)
        torch.manual_seed(batch)
        arguments, inputs = reference["get_init_inputs"](), reference["get_inputs"]()
        model, new = reference["Model"](*arguments).eval(), candidate["ModelNew"](*arguments).eval()
        new.load_state_dict(model.state_dict())
        double = [x.double() if x.is_floating_point() else x for x in inputs]
        truths, results = model.double()(*double), new(*inputs)
        for number, (truth, result) in enumerate(zip(truths, results, strict=True)):
            count, truth = count + 1, truth.double()  # noqa: PLW2901 - a mask is compared as numbers
            apart = (result.double() - truth).abs().max() if result.shape == truth.shape else torch.inf
            if not apart <= NEAR[result.dtype] * (1 + truth.abs().max()):
                wrong.append(f"{path.stem}, result {number} at batch {batch}: {float(apart):g}")
    return count, wrong


def main(folder: Path, cache: Path) -> None:
    paths = sorted(folder.glob("*.py"))
    texts = [written(path.read_text("utf-8"), path.stem) for path in paths]
    tools = toolchain.prepare()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        made = build_request.BuildRequest(**request, candidate_source="")
        built = build.extension(tools, made, cache, timeout_s=600)
        return {"error": built.log} if built.library is None else {"library": str(built.library)}

    torch_shim.install(str(tools.runtime), answer)
    torch.set_default_device("cuda")
    torch.set_grad_enabled(False)
    count, wrong = 0, list[str]()
    for path, text in zip(paths, texts, strict=True):
        more, differing = compared(path, text)
        count, wrong = count + more, wrong + differing
    report = {"compared": count, "wrong": wrong, "findings": torch_shim.findings()}
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
