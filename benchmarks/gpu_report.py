"""What was measured on a GPU, in the forms of a bench's report: `python -m benchmarks.gpu_report`.

Nothing is measured here. Composed answers come from benchmarks/results/composer/kernelbench.json, shipped
ones from the `kernel.json` of each kernel; only what has a verdict counts, and each limit is on the page.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.bench import page, report
from agent.bench.folder import Asked, BenchInfo
from agent.bench.outcome import Outcome
from agent.bench.suite import Case
from agent.kernels import manifest, sources
from benchmarks import storage

DOCUMENT = storage.COMPOSER / "kernelbench.json"
PAGE = storage.ROOT / "docs" / "gpu-report.md"
EVERY = 5
PROBLEMS = {"level1": 100, "level2": 100}
NEVER = "never judged"
INPUTS = {
    "level1/gelu": (8192, 11008), "level1/group_norm": (112, 64, 512, 512),
    "level1/layer_norm": (16, 2048, 4096), "level1/logsumexp": (4096, 32000),
    "level1/matmul": (4096, 2048), "level1/rms_norm": (8, 2048, 4096), "level1/softmax": (4096, 16384),
    "level2/conv_group_norm_tanh_hardswish_residual_logsumexp": (128, 8, 128, 128),
    "level2/linear_group_norm_min_bias": (1024, 8192),
}  # fmt: skip
"""The shipped references, each with the shape of its first input."""
HEAD = """\
# What was measured on a GPU

Rendered by `python -m benchmarks.gpu_report` from recorded measurements; a test compares. The figures are
those of `agent bench report`, over answers that need no model: composed ones for levels 1 and 2 of
KernelBench, and the shipped kernels for the shipped references.

## Limits

"""
LIMITS = """\
- One GPU at a time, each problem's times from one sitting on one card: ratios may be put together, times may
  not. The cards of the composed answers ({dates}; of the shipped kernels: see [kernels](kernels.md)):
  {gpus}.
- Every fifth problem of each level, a rule fixed before anything was measured: {problems} of 200. {timed} of
  them were timed.
- *verified* is a GPU's verdict with the short protocol at the problem's own sizes for {on_gpu} composed
  answers, and for the others the emulator's, at sizes that it can afford.
- Of the {judged} that were both judged and timed, {changed} were so in two versions of the
  file.
- {without} were timed and never judged; fast_p counts such as failures.
- `max-autotune` ran beside {tuned} of the composed answers, for which *best* is the fastest of all three.
  Beside the others it is the faster of eager and `torch.compile`. CUDA graphs of these ran beside none.
- Full precision on both sides (TF32 off), one input shape of each problem, its own, and a cold L2 cache.
- Of a single composed answer neither an interval nor the share of the roofline was recorded.
- Times of shipped kernels are those of the library's operators and not of the answer's file. None was taken
  at the size of `level1/matmul`. Their verdicts are of earlier versions of the judge, and some of an earlier
  text of the kernel: the scope says so.
- No model was asked, so tokens and cost are none. GPU-hours were not recorded.
"""


def composed(entries: Sequence[dict[str, Any]]) -> list[Outcome]:
    """Every fifth problem of both levels; what has no verdict is open, timed or not."""
    known = {entry["id"]: entry for entry in entries}
    return [
        _composed(f"{level}/{number}", known.get(f"{level}/{number}", {}))
        for level, count in PROBLEMS.items()
        for number in range(EVERY, count + 1, EVERY)
    ]


def _composed(address: str, entry: dict[str, Any]) -> Outcome:
    level = address.partition("/")[0]
    verdict, times = _said(entry, _judged_by(entry)), _said(entry, "times")
    begun = Outcome(address=address, group=level, sample=1)
    if not verdict:
        timed = f", and timed at {_ratio(times):.2f}x of the best of torch" if times else ""
        return begun.model_copy(update={"ending": "open", "reason": NEVER + timed})
    if verdict["status"] != "verified":
        reason = f"{verdict['status']}: {verdict['finding'].partition(':')[0]}"
        judged = {"ending": "unsolved", "reason": reason, "attempts": 1, "first": verdict["status"]}
        return begun.model_copy(update=judged)
    where = "GPU" if _judged_by(entry) == "cuda" else "CPU emulator"
    named = {"kernel": times["times"]["composed"], **times["times"]} if times else {}
    return begun.model_copy(
        update={
            "ending": "verified", "attempts": 1, "first": "verified",
            "scope": f"{where}, {verdict['shapes']} sizes, {verdict['protocol']}",
            "gpu": times["gpu"].partition(",")[0] if times else None,
            "times_ms": {name: ms for name, ms in named.items() if name != "composed"},
        }
    )  # fmt: skip


def _judged_by(entry: dict[str, Any]) -> str:
    """Whose verdict counts: a GPU's where one judged it."""
    judged = _said(entry, "cuda").get("status", "fault") != "fault"
    return "cuda" if judged else "emulator"


def _said(entry: dict[str, Any], part: str) -> dict[str, Any]:
    said = entry.get(part, {}).get("said")
    return said if isinstance(said, dict) else {}


def _ratio(times: dict[str, Any]) -> float:
    found: dict[str, float] = dict(times["times"])
    kernel = found.pop("composed")
    return min(found.values()) / kernel


def shipped() -> list[Outcome]:
    """One for each shipped reference: the verdict of a GPU, and the times at the reference's own size."""
    known = [manifest.load(name) for name in sources.NAMES]
    return [_shipped(address, shape, known) for address, shape in INPUTS.items()]


def _shipped(address: str, shape: tuple[int, ...], known: Iterable[manifest.Manifest]) -> Outcome:
    begun = Outcome(address=address, group=address.partition("/")[0], sample=1)
    for one in known:
        for verdict in one.verified:
            if (verdict.problem, verdict.executor, verdict.status) != (address, "cuda", "verified"):
                continue
            measured = next((m for m in one.measured if _is_of(m, shape)), None)
            update: dict[str, object] = {
                "ending": "verified", "attempts": 1, "first": "verified", "scope": _scope(one, verdict)
            }  # fmt: skip
            if measured is not None:
                times = {
                    "kernel": measured.candidate_ms,
                    "eager": measured.eager_ms,
                    "compile": measured.compile_ms,
                }
                update |= {
                    "gpu": measured.gpu, "roofline": measured.roofline_fraction,
                    "speedup_interval": measured.ratio_ci,
                    "times_ms": {name: found.p50 for name, found in times.items() if found},
                }  # fmt: skip
            return begun.model_copy(update=update)
    return begun.model_copy(update={"ending": "open", "reason": "no verdict of a GPU is recorded"})


def _is_of(measured: manifest.Measured, shape: tuple[int, ...]) -> bool:
    """Forward alone, in the reference's type and at its size."""
    return measured.shape == shape and measured.dtype == "float32" and "backward" not in measured.setting


def _scope(one: manifest.Manifest, verdict: manifest.Verified) -> str:
    present = "" if one.speaks_for_present(verdict) else ", on an earlier text of the kernel"
    return f"{verdict.scope}, judge {verdict.verifier_version}{present}"


def limits(entries: Sequence[dict[str, Any]], found: Sequence[Outcome]) -> str:
    """What the figures do not say."""
    addresses = {one.address for one in found}
    timed = [one for one in entries if one["id"] in addresses and _said(one, "times")]
    said = [_said(one, "times") for one in timed]
    judged = [one for one in timed if _said(one, _judged_by(one))]
    without = [one.address for one in found if one.reason.startswith(NEVER) and one.reason != NEVER]
    return LIMITS.format(
        gpus="; ".join(sorted({one["gpu"] for one in said})),
        dates=", ".join(sorted({one["date"] for one in said})),
        timed=len(timed), judged=len(judged),
        on_gpu=sum(_judged_by(one) == "cuda" for one in timed),
        changed=sum(_version(one[_judged_by(one)]) != _version(one["times"]) for one in judged),
        problems=len(found), without=len(without),
        tuned=sum("max-autotune" in one["times"] for one in said),
    )  # fmt: skip


def _version(part: dict[str, Any]) -> str:
    """Of the file that a part is about; of the composer in early records."""
    return str(part.get("text") or part["code"])


def summed(name: str, found: Sequence[Outcome]) -> report.Report:
    """Their figures."""
    cases = tuple(Case(address=one.address, group=one.group) for one in found)
    info = BenchInfo(
        id=name,
        created=datetime(2026, 11, 23, tzinfo=UTC),
        kernelwright="",
        asked=Asked(suite=name, cases=cases),
    )
    return report.summed(info, found)


def render(entries: Sequence[dict[str, Any]]) -> str:
    """The page."""
    found = composed(entries)
    lines = [HEAD + limits(entries, found)]
    for title, outcomes in (
        ("Composed answers, every fifth problem of KernelBench", found),
        ("Shipped kernels, the shipped references", shipped()),
    ):
        deeper = (
            f"#{line}" if line.startswith("#") else line for line in page.sections(summed(title, outcomes))
        )
        lines += [f"## {title}", "", *deeper, ""]
    return "\n".join([*lines, "## Method", "", page.METHOD])


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--out", type=Path, default=PAGE)
    given = options.parse_args(arguments)
    given.out.write_text(render(json.loads(DOCUMENT.read_text())["results"]), encoding="utf-8")
    sys.stdout.write(f"{given.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
