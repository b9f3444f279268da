"""Whether the ranking tells 3 % on a GPU: `python -m tests.gpu.planted [--repeats 10] [--out DIR]`.

One kernel does the same arithmetic for nothing on the way, 500, 515 and 485 times an element: a known kernel,
one that is 3 % slower and one that is 3 % faster. Each is judged and timed anew in every repeat, by processes
of its own. By the rule of `agent.ranking` the slower one must not be kept and the faster one must be, in 9 of
10 repeats; and the times of the known kernel must lie within 2 %. Exits 1 where one of the three fails.
"""

import argparse
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from agent import config, problems, ranking
from agent.executors import JudgeOptions, LocalExecutor
from agent.records import Attempt, Candidate, Evaluation, Problem
from benchmarks import storage

from . import verify

VARIANTS = {"known": 500, "slower": 515, "faster": 485}
NEEDED = 0.9
SPREAD = 0.02
LIMIT_S = 330.0
"""No repeat is begun after this."""
REFERENCE = Path(__file__).with_name("problems") / "tanh.py"
SOURCE = '''import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="planted",
    cpp_sources="torch::Tensor planted(torch::Tensor x, int turns);",
    cuda_sources=r"""
__global__ void planted_kernel(const float* x, float* y, long long size, int turns) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float value = x[i];
    for (int turn = 0; turn < turns; ++turn) value = fmaf(value, 0.999f, 0.001f);
    y[i] = tanhf(x[i]) + (value > 1e30f ? 1.f : 0.f);
}

torch::Tensor planted(torch::Tensor x, int turns) {
    auto y = torch::empty_like(x);
    long long size = x.numel();
    planted_kernel<<<(size + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), size, turns);
    return y;
}
""",
    functions=["planted"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.planted(x.contiguous(), TURNS)
'''


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--repeats", type=int, default=10)
    options.add_argument("--out", type=Path, default=storage.GPU)
    options.add_argument("--commit", default=None, help="the commit, where this folder is no checkout")
    given = options.parse_args()
    cache_dir = config.load({}, offline=True).settings.cache_dir
    judged = JudgeOptions(candidate_timeout_s=60.0, protocol="quick")
    executor = LocalExecutor("cuda", cache_dir=cache_dir, options=judged)
    problem = problems.load(str(REFERENCE))
    now = datetime.now(UTC)
    path = given.out / f"planted-{now:%Y%m%d-%H%M%S}.json"
    circumstances = verify.circumstances(given.commit)
    repeats: list[dict[str, Any]] = []
    started = time.monotonic()
    while not repeats or (len(repeats) < given.repeats and time.monotonic() - started < LIMIT_S):
        repeats.append(repeated(executor, problem))
        found = summary(repeats)
        document = {
            **circumstances, "summary": found, "repeats": repeats,
            "seconds": round(time.monotonic() - started, 1),
        }  # fmt: skip
        storage.write(path, document)
        sys.stdout.write(f"{words(found)}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{path}\n")
    return 0 if found["as_needed"] else 1


def repeated(executor: LocalExecutor, problem: Problem) -> dict[str, Any]:
    """Each variant judged and timed once, and whether it would be kept in the place of the known one.

    All at a time, as users do it: builds overlap, and on the GPU they take turns.
    """

    def judged(turns: int) -> Evaluation:
        source = SOURCE.replace("TURNS", str(turns))
        return executor.evaluate(problem, Candidate(problem=problem.name, source=source))

    with ThreadPoolExecutor(len(VARIANTS)) as pool:
        return outcome(dict(zip(VARIANTS, pool.map(judged, VARIANTS.values()), strict=True)))


def outcome(judged: dict[str, Evaluation]) -> dict[str, Any]:
    """The times of one repeat; `kept` by the ranking, None where something was not verified."""
    known = _attempt(1, judged["known"])
    said: dict[str, Any] = {}
    for name, evaluation in judged.items():
        times = evaluation.measurement
        attempt = _attempt(2, evaluation)
        both = times is not None and known.evaluation.measurement is not None
        said[name] = {
            "status": str(evaluation.status),
            "ms": times.candidate_ms.p50 if times else None,
            "speedup_interval": times.speedup_interval if times else None,
            "baseline": times.baseline if times else None,
            "kept": ranking.better(known, attempt) is attempt if both else None,
        }  # fmt: skip
    return said


def _attempt(number: int, evaluation: Evaluation) -> Attempt:
    return Attempt(number=number, candidate=Candidate(problem="planted", source=""), evaluation=evaluation)


def summary(repeats: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """How often the ranking was right, and how far the times of the known kernel lie apart."""
    repeats = list(repeats)
    refused = sum(repeat["slower"]["kept"] is False for repeat in repeats)
    kept = sum(repeat["faster"]["kept"] is True for repeat in repeats)
    times = [repeat["known"]["ms"] for repeat in repeats if repeat["known"]["ms"]]
    spread = (max(times) - min(times)) / median(times) if len(times) == len(repeats) else None
    enough = min(refused, kept) >= NEEDED * len(repeats)
    return {
        "repeats": len(repeats), "slower_not_kept": refused, "faster_kept": kept, "spread": spread,
        "as_needed": enough and spread is not None and spread <= SPREAD,
    }  # fmt: skip


def words(found: dict[str, Any]) -> str:
    """The summary as one line."""
    spread = "unknown" if found["spread"] is None else f"{found['spread']:.2%}"
    return (
        f"3 % slower: not kept in {found['slower_not_kept']} of {found['repeats']}; 3 % faster: kept in "
        f"{found['faster_kept']} of {found['repeats']}; times of the known kernel apart by {spread}"
    )


if __name__ == "__main__":
    sys.exit(main())
