"""The emulator's correct kernels on a GPU, by stock `load_inline`: `python -m tests.gpu.corpus --out DIR`.

Every program of tests/emulator/corpus/correct runs in a process of its own, several at once, and every case
has to agree with PyTorch there as it does on the emulator. Writes one JSON document; exits 1 on a difference.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import storage

from .verify import circumstances

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "emulator" / "corpus" / "correct"
AT_ONCE = 6


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--out", type=Path, default=storage.GPU)
    options.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
    options.add_argument("--one", type=Path, default=None, help="run this program here and print its cases")
    given = options.parse_args()
    if given.one:
        sys.stdout.write(json.dumps(differences(given.one)) + "\n")
        return 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        programs = list(pool.map(judged, sorted(PROGRAMS.glob("*.py"))))
    now = datetime.now(UTC)
    document = {
        **circumstances(given.commit),
        "programs": programs,
    }
    path = given.out / f"corpus-{now:%Y%m%d-%H%M%S}.json"
    storage.write(path, document)
    cases = [
        difference for program in programs for difference in (program["cases"] or {"": "failed"}).values()
    ]
    wrong = sum(bool(difference) for difference in cases)
    sys.stdout.write(f"{len(cases) - wrong} passed, {wrong} failed\n{path}\n")
    return 1 if wrong else 0


def judged(program: Path) -> dict[str, Any]:
    """One program in its own process: a fault of one leaves the GPU to the others."""
    started = time.monotonic()
    command = [sys.executable, "-m", "tests.gpu.corpus", "--one", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=500)
    lines = done.stdout.strip().splitlines()
    return {
        "program": program.stem,
        "seconds": round(time.monotonic() - started, 1),
        "cases": json.loads(lines[-1]) if done.returncode == 0 and lines else None,
        "stderr": done.stderr[-2000:] if done.returncode else "",
    }


def differences(program: Path) -> dict[str, str]:
    """For each case how far it is from PyTorch on this GPU, empty where it agrees; TF32 is off."""
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    spec = importlib.util.spec_from_file_location(program.stem, program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {}
    for name, (ours, expected) in module.cases().items():
        coarse = expected.dtype in (torch.float16, torch.bfloat16)
        tolerances = (2e-2, 2e-2) if coarse else (1e-4, 1e-5)
        same = ours.shape == expected.shape and ours.dtype == expected.dtype
        agrees = same and torch.allclose(ours.double(), expected.double(), *tolerances)
        found[name] = "" if agrees else "differs"
        if same and not agrees:
            found[name] = f"differs by up to {(ours.double() - expected.double()).abs().max().item():g}"
    torch.cuda.synchronize()
    return found


if __name__ == "__main__":
    sys.exit(main())
