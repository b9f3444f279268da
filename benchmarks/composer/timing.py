"""Times one composed file beside its reference: a process of its own, which its parent tells when.

`python -m benchmarks.composer.timing REFERENCE CANDIDATE CACHE [max-autotune]`. It builds the file, says
`built`, and on a line from its parent puts both on the GPU, compiles the reference and says `ready`; on the
next line, when nothing else runs there, it times all in turns and says what came out. TF32 is off throughout.
"""

import contextlib
import importlib.util
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

ROUNDS, LEAST = 40, 8
BUDGET_S = 1.0
DEVICE = "cuda"
PIECE = 1 << 26
Call = Callable[[], Any]


def main(arguments: list[str]) -> None:
    reference, candidate, cache = (Path(argument) for argument in arguments[:3])
    answers = os.dup(1)
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        os.write(answers, json.dumps(message).encode() + b"\n")

    try:
        module = _built(candidate, cache)
        say({"step": "built"})
        sys.stdin.readline()
        timed = Timed(_module(reference, "reference"), module, "max-autotune" in arguments)
        say({"step": "ready"})
        sys.stdin.readline()
        say(timed.result())
    except Exception as error:  # noqa: BLE001 - what comes of references and torch's compiler is a result
        say({"failed": f"{type(error).__name__}: {str(error).strip()}"[:1500]})


def _built(candidate: Path, cache: Path) -> dict[str, Any]:
    """The candidate's module; its kernels are built as the judge builds them."""
    from torch.utils import cpp_extension

    from agent import gpu_build, torch_shim
    from agent.build.build_request import BuildRequest
    from agent.gpu_build import gpu

    # All files name their kernels alike; torch itself would build them into one folder.
    os.environ["TORCH_EXTENSIONS_DIR"] = tempfile.mkdtemp(prefix="composer-timing-")
    here = gpu.present()
    if here is not None:
        tools, card = gpu_build.prepare(cache), here

        def build(request: dict[str, Any]) -> dict[str, Any]:
            asked = BuildRequest(**request, candidate_source=candidate.read_text(encoding="utf-8"))
            try:
                made = gpu_build.extension(tools, asked, card, cache / "builds", 300)
            except gpu_build.Doubt as doubt:
                sys.stderr.write(f"built by torch: {doubt}\n")
                return {}
            found = "; ".join(finding.message for finding in made.findings)
            return {"library": str(made.library)} if made.library else {"error": found or str(made.log)}

        torch_shim.build_before(cpp_extension.load_inline, build)
    return _module(candidate, "candidate")


def _module(path: Path, name: str) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


class Timed:
    """Both models on the GPU, and the reference compiled."""

    def __init__(self, reference: dict[str, Any], candidate: dict[str, Any], tuned: bool) -> None:
        import torch

        from agent.harness.worker.timing import Timer

        self._begun = time.monotonic()
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.set_grad_enabled(False)
        torch.manual_seed(0)
        with torch.device(DEVICE):
            arguments = reference["get_init_inputs"]()
            self.inputs = [_on_gpu(value) for value in reference["get_inputs"]()]
            model = reference["Model"](*arguments).eval().cuda()
            own = candidate["ModelNew"](*arguments).eval().cuda()
        own.load_state_dict(model.state_dict())
        self.notes: dict[str, str] = {}
        self.calls: dict[str, Call] = {"eager": lambda: model(*self.inputs)}
        self._timer = Timer()
        try:
            self.error: float | None = _apart(own(*self.inputs), model(*self.inputs))
            self.calls["composed"] = lambda: own(*self.inputs)
        except Exception as error:  # noqa: BLE001 - the reference is timed all the same
            self.error = None
            self.notes["composed"] = f"{type(error).__name__}: {str(error).strip()}"[:600]
        modes = {"compile": "default"} | ({"max-autotune": "max-autotune"} if tuned else {})
        for name, mode in modes.items():
            try:
                compiled: Call = torch.compile(model, mode=mode)
                for _ in range(3):
                    compiled(*self.inputs)
                self.calls[name] = partial(compiled, *self.inputs)
            except Exception as error:  # noqa: BLE001 - torch's compiler raises what it likes
                self.notes[name] = f"{type(error).__name__}: {str(error).strip()}"[:300]
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self.prepared_s = time.monotonic() - self._begun

    def result(self) -> dict[str, Any]:
        """Median milliseconds of each, in turns; the error; where the time goes."""
        times: dict[str, list[float]] = {name: [] for name in self.calls}
        for call in self.calls.values():
            call()
        begun = time.monotonic()
        for number in range(ROUNDS):
            for name in random.sample(list(self.calls), len(self.calls)):
                times[name].append(self._timer.timed(self.calls[name])[0].ms)
            if number + 1 >= LEAST and time.monotonic() - begun > BUDGET_S:
                break
        ratios = [
            min(spans[name] for name in spans if name != "composed") / spans["composed"]
            for spans in (
                dict(zip(times, values, strict=True)) for values in zip(*times.values(), strict=True)
            )
            if "composed" in spans
        ]
        return {
            "times": {name: round(median(values), 5) for name, values in times.items()},
            "rounds": len(times["eager"]),
            "spread": [round(value, 3) for value in (min(ratios), max(ratios))] if ratios else None,
            "error": self.error,
            "notes": self.notes,
            "prepared_s": round(self.prepared_s, 1),
            "kernels": {name: _kernels(call) for name, call in self.calls.items()},
        }


def _on_gpu(value: Any) -> Any:
    return value.cuda() if hasattr(value, "cuda") else value


def _apart(found: Any, wanted: Any) -> float:
    """The largest norm of a difference, relative to that of what is wanted."""
    import torch

    mine, its = ([one] if isinstance(one, torch.Tensor) else list(one) for one in (found, wanted))
    worst = 0.0
    for a, b in zip(mine, its, strict=True):
        if a.shape != b.shape:
            return float("inf")
        a, b = a.reshape(-1), b.reshape(-1)
        pieces = [slice(at, at + PIECE) for at in range(0, a.numel(), PIECE)]
        apart = sum(float((a[piece].double() - b[piece].double()).square().sum()) for piece in pieces)
        whole = sum(float(b[piece].double().square().sum()) for piece in pieces)
        worst = max(worst, (apart / max(whole, 1e-60)) ** 0.5)
    return worst


def _kernels(call: Call) -> list[tuple[str, float, int]]:
    """The kernels of one call by their milliseconds and numbers."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with contextlib.suppress(Exception):
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            call()
            torch.cuda.synchronize()
        rows = [row for row in found.key_averages() if row.self_device_time_total > 0]
        rows.sort(key=lambda row: -row.self_device_time_total)
        return [(row.key[:90], round(row.self_device_time_total / 1000, 4), row.count) for row in rows[:12]]
    return []


if __name__ == "__main__":
    main(sys.argv[1:])
