"""Fast builds against stock `load_inline` on a GPU, bit for bit: `python -m tests.gpu.slim_build --out FILE`.

Every program of the emulator's corpus, those of tests/gpu/programs, the catalogue's kernels and the recorded
answers are built both ways in processes of their own and run on the same inputs; every output has to be the
same in every bit. Also says what a call costs on the host. Exits 1 on a difference, or where a program that
has to be built fast was not.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from .verify import machine, revision

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "emulator" / "corpus" / "correct"
OWN = ROOT / "tests" / "gpu" / "programs"
MODULES: dict[str, tuple[list[int], list[int]]] = {
    "gelu": ([], [1000, 1003]), "softmax": ([], [512, 4099]), "layer_norm": ([4096], [32, 33, 4096]),
    "group_norm": ([64, 8], [5, 64, 37, 41]),
}  # fmt: skip
"""Arguments of ModelNew and the shape of its input, smaller than the references' own."""
MUST_BE_FAST = ("gelu", "softmax", "layer_norm", "group_norm", "torch_and_cuda", "recorded_4")
CALLS = 2000


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--out", type=Path, default=Path("slim_build.json"))
    options.add_argument("--at-once", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    options.add_argument("--one", type=Path, default=None, help="run this program here and print its cases")
    options.add_argument("--way", choices=("fast", "stock"), default="fast")
    options.add_argument("--cache", type=Path, default=None)
    given = options.parse_args()
    if given.one:
        sys.stdout.write(json.dumps(outcome(given.one, given.way, given.cache)) + "\n")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        document = compared(Path(scratch), given.at_once)
    given.out.write_text(json.dumps(document, indent=1) + "\n")
    wrong = [program for program in document["programs"] if program["wrong"]]
    for program in document["programs"]:
        line = {key: program[key] for key in ("program", "fast_s", "stock_s", "doubts", "wrong", "call_us")}
        sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.write(f"{len(document['programs']) - len(wrong)} programs alike, {len(wrong)} not\n")
    return 1 if wrong else 0


def compared(scratch: Path, at_once: int) -> dict[str, Any]:
    """Prepares once, then builds and runs everything, the slow stock builds several at once."""
    from agent import gpu_build
    from agent.kernels import sources

    started = time.monotonic()
    gpu_build.prepare(scratch / "cache")
    prepared_s = round(time.monotonic() - started, 1)
    programs = [*sorted(CORPUS.glob("*.py")), *sorted(OWN.glob("*.py")), *recorded(scratch)]
    for name in MODULES:
        programs.append(scratch / f"{name}.py")
        programs[-1].write_text(sources.candidate(name), encoding="utf-8")
    with ThreadPoolExecutor(at_once) as pool:
        ways = [pool.submit(child, program, "stock", scratch) for program in programs]
        fast = [child(program, "fast", scratch) for program in programs]
        stock = [way.result() for way in ways]
    return {
        "commit": revision(),
        "machine": machine(),
        "prepared_s": prepared_s,
        "programs": [weighed(*three) for three in zip(programs, fast, stock, strict=True)],
    }


def recorded(scratch: Path) -> Iterator[Path]:
    """The recorded answers as files."""
    from agent.store import resolve_attempt

    for number in (1, 2, 3, 4):
        _, attempt = resolve_attempt(f"recorded/group_norm:{number}", ROOT / "runs")
        path = scratch / f"recorded_{number}.py"
        path.write_text(attempt.candidate.source)
        yield path


def weighed(program: Path, fast: dict[str, Any], stock: dict[str, Any]) -> dict[str, Any]:
    """The two outcomes of a program, and what is wrong with them."""
    wrong = [
        f"{name}: other bits"
        for name in stock["cases"].keys() | fast["cases"].keys()
        if stock["cases"].get(name) != fast["cases"].get(name)
    ]
    if bool(fast["error"]) != bool(stock["error"]):
        wrong.append(f"fast: {fast['error'][-300:]}; stock: {stock['error'][-300:]}")
    if program.stem in MUST_BE_FAST and (fast["doubts"] or not fast["built"]):
        wrong.append("not built fast")
    return {
        "program": program.stem,
        "fast_s": fast["build_s"],
        "stock_s": stock["build_s"],
        "doubts": fast["doubts"],
        "cases": len(stock["cases"]),
        "wrong": wrong,
        "errors": [fast["error"], stock["error"]],
        "call_us": [fast["call_us"], stock["call_us"]],
    }


def child(program: Path, way: str, scratch: Path) -> dict[str, Any]:
    """One program in its own process: a fault of one leaves the GPU to the others."""
    command = [sys.executable, "-m", "tests.gpu.slim_build", "--one", str(program), "--way", way]
    command += ["--cache", str(scratch / "cache")]
    environment = os.environ | {
        "TORCH_EXTENSIONS_DIR": str(scratch / "stock" / program.stem),
        "MAX_JOBS": "2",
    }
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=500, env=environment
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return dict(json.loads(lines[-1]))
    nothing = {"cases": {}, "doubts": [], "built": 0, "build_s": None, "call_us": None}
    return nothing | {"error": done.stderr[-4000:] or f"exit {done.returncode}"}


def outcome(program: Path, way: str, cache: Path) -> dict[str, Any]:
    """Digests of every output of one program, the seconds its builds took, and of what was left to stock."""
    import torch

    builder = Builder(program, cache)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    builder.install(fast=way == "fast")
    found: dict[str, Any] = {"cases": {}, "error": "", "call_us": None}
    try:
        module = imported(program)
        found["cases"] = {name: bits(output) for name, output in outputs(program, module)}
        if program.stem == "gelu":
            small = torch.randn(8, device="cuda")
            found["call_us"] = call_us(lambda: module.gelu(small, "none"))
    except Exception as error:  # noqa: BLE001 - a candidate raises what it likes, and both ways have to raise
        found["error"] = f"{type(error).__name__}: {str(error)[-3000:]}"
    torch.cuda.synchronize()
    return found | {"doubts": builder.doubts, "built": builder.built, "build_s": round(builder.seconds, 2)}


class Builder:
    """Stands where load_inline was, timing it; fast where the backend takes the request."""

    def __init__(self, program: Path, cache: Path) -> None:
        self._source, self._cache = program.read_text(), cache
        self.seconds, self.built = 0.0, 0
        self.doubts: list[str] = []

    def install(self, *, fast: bool) -> None:
        from torch.utils import cpp_extension

        if fast:
            from agent import torch_shim

            torch_shim.build_before(cpp_extension.load_inline, self._fast)
        inner: Callable[..., Any] = cpp_extension.load_inline

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.monotonic()
            try:
                return inner(*args, **kwargs)
            finally:
                self.seconds += time.monotonic() - started

        cpp_extension.load_inline = timed

    def _fast(self, asked: dict[str, Any]) -> dict[str, Any]:
        from agent import gpu_build
        from agent.gpu_build import gpu
        from agent.harness.backends import load_inline_build

        here = gpu.present()
        assert here is not None, "the GPUs of this machine differ, or there is none"
        toolchain = gpu_build.prepare(self._cache)
        try:
            request = load_inline_build.asked(asked, self._source)
            built = gpu_build.extension(toolchain, request, here, self._cache / "builds", 300)
        except gpu_build.Doubt as doubt:
            self.doubts.append(str(doubt))
            return {}
        self.built += 1
        if built.library is None:
            return {"error": built.log}
        return {"library": str(built.library)}


def imported(program: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(program.stem, program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[program.stem] = module
    spec.loader.exec_module(module)
    return module


def outputs(program: Path, module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What the program computes, by case."""
    import torch

    if hasattr(module, "cases"):
        for name, (ours, _) in module.cases().items():
            yield name, ours
        return
    arguments, shape = MODULES["group_norm" if program.stem.startswith("recorded") else program.stem]
    model = module.ModelNew(*arguments).cuda().eval()
    with torch.no_grad():
        yield "forward", model(torch.randn(shape, device="cuda"))


def bits(tensor: Any) -> str:
    """Shape, type and a digest of every byte."""
    import torch

    raw = tensor.detach().contiguous().cpu().flatten().view(torch.uint8).numpy().tobytes()
    return f"{list(tensor.shape)} {tensor.dtype} {hashlib.sha256(raw).hexdigest()}"


def call_us(call: Callable[[], object]) -> float:
    """Microseconds of host time that one call takes, the GPU waiting for the host: median of ten batches."""
    import torch

    times = []
    for _ in range(10):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(CALLS // 10):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - started) / (CALLS // 10) * 1e6)
    return round(statistics.median(times), 2)


if __name__ == "__main__":
    sys.exit(main())
