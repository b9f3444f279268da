"""What has to hold on a GPU, run for real: `make gpu-test`, or `python -m tests.gpu.verify --out DIR`.

Judges the four recorded attempts, the catalogue's kernels and programs that build in `__init__` with
`--executor cuda` at full shapes and writes one JSON document with everything the commands printed. Exits 1
when a status, a headline or an exit is not as expected.
"""

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import storage

ROOT = Path(__file__).resolve().parents[2]
RECORDED = (("build_error", 1), ("incorrect", 1), ("incorrect", 1), ("verified", 0))
CORPUS = ROOT / "tests" / "integrity"
FAILING_BUILDS = {
    "built_in_init_undeclared": "missing-declaration",
    "built_in_init_without_cpp_sources": "cpp-sources-missing",
    "built_in_init_signature_for_name": "not-a-name",
    "built_in_init_extern_c": "extern-c",
    "built_in_init_shared_of_two_types": "shared-type-clash",
    "built_in_forward_undeclared": "missing-declaration",
}
"""Programs of the corpus -> the headline of their build error; each is verified after its mend."""
BUILT_LATER = {
    "built_at_first_call": "hardtanh_scale", "built_by_each_instance": "hardtanh_scale",
    "parameters_renamed": "layer_norm", "parameters_in_another_order": "layer_norm",
}  # fmt: skip
"""Honest programs and their problems."""
CATALOGUE = ("level1/softmax", "level1/layer_norm", "level1/gelu", "level1/group_norm")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--out", type=Path, default=storage.GPU)
    options.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
    options.add_argument("--only", choices=("recorded", "catalogue", "builds"), default=None)
    given = options.parse_args()
    steps = []
    if given.only in (None, "recorded"):
        for k, (status, code) in enumerate(RECORDED, start=1):
            steps.append(judged(["eval", "level1/group_norm", f"recorded/group_norm:{k}"], status, code))
    if given.only in (None, "catalogue"):
        for name in CATALOGUE:
            steps.append(judged(["run", name, "--provider", "catalogue"], "verified", 0))
    if given.only in (None, "builds"):
        for name, kind in FAILING_BUILDS.items():
            steps.append(judged(corpus("buggy", name, "hardtanh_scale"), "build_error", 1, kind))
            steps.append(judged([*corpus("buggy", name, "hardtanh_scale"), "--mend"], "verified", 0))
        for name, problem in BUILT_LATER.items():
            steps.append(judged(corpus("honest", name, problem), "verified", 0))
    now = datetime.now(UTC)
    document = {
        **circumstances(given.commit),
        "steps": steps,
    }
    path = given.out / f"{now:%Y%m%d-%H%M%S}.json"
    storage.write(path, document)
    wrong = [step["command"] for step in steps if not step["as_expected"]]
    sys.stdout.write(f"{len(steps) - len(wrong)} passed, {len(wrong)} failed\n{path}\n")
    for command in wrong:
        sys.stdout.write(f"not as expected: {command}\n")
    return 1 if wrong else 0


def corpus(kind: str, name: str, problem: str) -> list[str]:
    """The command that judges one program of the integrity corpus."""
    places = (CORPUS / "problems" / f"{problem}.py", CORPUS / "programs" / kind / f"{name}.py")
    return ["eval", *(str(place.relative_to(ROOT)) for place in places)]


def judged(arguments: list[str], status: str, code: int, kind: str | None = None) -> dict[str, Any]:
    """Runs one command on the GPU and holds its verdict against the expected one, `kind` the headline's.

    Of a file and its mends it is the last verdict.
    """
    command = [*arguments, "--executor", "cuda", "--json"]
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "agent.cli", *command], capture_output=True, text=True, check=False, cwd=ROOT
    )
    try:
        document = json.loads(process.stdout)
    except ValueError:
        document = None
    best = (document or {}).get("best") or ((document or {}).get("attempts") or [{}])[-1]
    evaluation = best.get("evaluation") if {"best", "attempts"} & (document or {}).keys() else document
    got = (evaluation or {}).get("status")
    found = ((evaluation or {}).get("findings") or [{}])[0].get("kind")
    named = kind is None or found == kind
    measured = status != "verified" or (evaluation or {}).get("measurement") is not None
    step = {
        "command": f"agent {' '.join(command)}",
        "seconds": round(time.monotonic() - started, 1),
        "exit": process.returncode,
        "as_expected": got == status and process.returncode == code and measured and named,
        "evaluation": evaluation,
        "stderr": process.stderr[-4000:],
    }
    sys.stdout.write(f"{step['command']}: {got}, exit {process.returncode}, {step['seconds']} s\n")
    sys.stdout.flush()
    return step


def circumstances(commit: str | None) -> dict[str, Any]:
    """Date, commit and machine, which every document in benchmarks/results/gpu begins with."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit or revision(),
        "machine": machine(),
    }


def machine() -> dict[str, str | None]:
    """GPU, driver and compiler by their own account."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return {
        "gpu": said(query),
        "nvcc": said(["nvcc", "--version"]),
        "torch": said([sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)"]),
        "python": sys.version.split()[0],
    }


def revision() -> str | None:
    return said(["git", "-C", str(ROOT), "rev-parse", "HEAD"])


def said(command: list[str]) -> str | None:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except OSError:
        return None
    return answer.stdout.strip().splitlines()[-1] if answer.stdout.strip() else None


if __name__ == "__main__":
    sys.exit(main())
