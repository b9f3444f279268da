"""What building for a GPU costs, fast and stock: `python -m benchmarks.build --out FILE.json`.

Seconds of the `load_inline` calls of each candidate, one at a time: by stock `load_inline` in an empty
directory; by the slim build with nothing cached; and after a change of the device code only. Medians of three
for the fast ones. What the slim build shares is prepared once per user and not counted; the sandbox of the
compilers is. Without a GPU it builds for the one in --capability.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from agent import gpu_build
from agent.build.build_request import BuildRequest
from agent.gpu_build import Doubt, Gpu, GpuToolchain, gpu
from agent.harness.backends import load_inline_build
from agent.kernels import sources
from agent.store import resolve_attempt
from benchmarks import storage
from tests.gpu import verify

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ("gelu", "softmax", "layer_norm", "group_norm")
REPEATS = 3
LIMIT_S = 600.0
# Prints what load_inline is asked, or how long the stock one takes and what it says.
ASKED = """
import json, runpy, sys
from torch.utils import cpp_extension
import inspect
stock = inspect.signature(cpp_extension.load_inline)
def load_inline(*args, **kwargs):
    asked = stock.bind(*args, **kwargs).arguments
    print(json.dumps({k: v for k, v in asked.items() if isinstance(v, (str, list, dict, tuple))}))
    sys.stdout.flush()
    raise SystemExit
cpp_extension.load_inline = load_inline
runpy.run_path(sys.argv[1])
"""
STOCK = """
import json, runpy, sys, time
from torch.utils import cpp_extension
stock, seconds = cpp_extension.load_inline, []
def load_inline(*args, **kwargs):
    started = time.monotonic()
    try:
        return stock(*args, **kwargs)
    finally:
        seconds.append(time.monotonic() - started)
cpp_extension.load_inline = load_inline
said = ""
try:
    runpy.run_path(sys.argv[1])
except Exception as error:
    said = str(error)[-2000:]
print(json.dumps({"seconds": sum(seconds) or None, "said": said}))
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--out", type=Path, default=None, help="also write the numbers to this file")
    options.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
    options.add_argument("--capability", default="9.0", help="of the GPU to build for where there is none")
    options.add_argument("--no-stock", action="store_true", help="leave the slow builds out")
    options.add_argument("--only", action="append", metavar="NAME", help="gelu, recorded_4, ...")
    given = options.parse_args()
    here = gpu.present() or Gpu(capability=given.capability)
    rows: list[dict[str, Any]] = []
    document = {
        **verify.circumstances(given.commit), "cpus": os.cpu_count(), "capability": here.capability,
        "rows": rows,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        started = time.monotonic()
        toolchain = gpu_build.prepare(Path(scratch))
        print(f"prepared in {time.monotonic() - started:.1f} s; CPUs: {os.cpu_count()}, sm_{here.number}")
        print(f"{'seconds':<14}{'stock':>8}{'cold':>8}{'device':>8}{'stock/cold':>12}{'stock/device':>14}")
        for candidate in candidates(Path(scratch)):
            if given.only and candidate.stem not in given.only:
                continue
            row = measured(candidate, toolchain, here, with_stock=not given.no_stock)
            print(shown(row), flush=True)
            rows.append(row)
            if given.out:
                storage.write(given.out, document)


def candidates(scratch: Path) -> Iterator[Path]:
    """Shipped kernels and the recorded answers, as files."""
    texts = {name: sources.candidate(name) for name in KERNELS}
    for number in (1, 2, 3, 4):
        _, attempt = resolve_attempt(f"recorded/group_norm:{number}", ROOT / "runs")
        texts[f"recorded_{number}"] = attempt.candidate.source
    for name, text in texts.items():
        path = scratch / f"{name}.py"
        path.write_text(text)
        yield path


def measured(candidate: Path, toolchain: GpuToolchain, here: Gpu, *, with_stock: bool) -> dict[str, Any]:
    """Seconds by every way; what was said instead of a library, if anything."""
    request = asked(candidate)
    cold: list[float] = []
    device: list[float] = []
    said = ""
    for number in range(REPEATS):
        with tempfile.TemporaryDirectory() as builds:
            try:
                for text, times in ((request, cold), (changed(request, number), device)):
                    started = time.monotonic()
                    built = gpu_build.extension(toolchain, text, here, Path(builds), LIMIT_S)
                    times.append(time.monotonic() - started)
                    said = built.findings[0].message if built.findings else said
            except Doubt as doubt:
                said = f"left to stock load_inline: {doubt}"
                break
    whole: dict[str, Any] = stock_build(candidate, here) if with_stock else {"seconds": None, "said": ""}
    return {
        "candidate": candidate.stem,
        "stock_s": whole["seconds"],
        "cold_s": median(cold) if cold else None,
        "device_changed_s": median(device) if device else None,
        "said": said,
        "stock_said": whole["said"][:400],
    }


def asked(candidate: Path) -> BuildRequest:
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(candidate)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return load_inline_build.asked(json.loads(done.stdout.splitlines()[-1]), candidate.read_text())


def changed(request: BuildRequest, number: int) -> BuildRequest:
    """The request with device code that no build has seen."""
    more = f"__device__ int changed_by_benchmark_{number} = {number};\n"
    return request.model_copy(update={"cuda_sources": (*request.cuda_sources, more)})


def stock_build(candidate: Path, here: Gpu) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as extensions:
        environment = os.environ | {
            "TORCH_EXTENSIONS_DIR": extensions,
            "TORCH_CUDA_ARCH_LIST": here.capability,
            "MAX_JOBS": "4",
        }
        command = [sys.executable, "-c", STOCK, str(candidate)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=LIMIT_S
        )
    lines = done.stdout.splitlines()
    return dict(json.loads(lines[-1])) if done.returncode == 0 and lines else {
        "seconds": None, "said": done.stderr[-400:],
    }  # fmt: skip


def shown(row: dict[str, Any]) -> str:
    stock_s, cold, device = (row[key] for key in ("stock_s", "cold_s", "device_changed_s"))
    times = "".join(f"{seconds:>8.2f}" if seconds else f"{'-':>8}" for seconds in (stock_s, cold, device))
    ratios = [stock_s / seconds if stock_s and seconds else None for seconds in (cold, device)]
    words = [f"{ratio:.1f}" if ratio else "-" for ratio in ratios]
    return f"{row['candidate']:<14}{times}{words[0]:>12}{words[1]:>14}  {row['said'][:90]}"


if __name__ == "__main__":
    main()
