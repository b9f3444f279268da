"""Timing of a shipped kernel beside torch's own operator, on the present GPU and in one run.

A round is one call of each side in random order, each after the L2 cache has been overwritten. Some cases
time many calls back to back instead, with a warm cache. The report has percentiles over the rounds. The ratio
has a 95 % interval of the median over the rounds' own ratios. TF32 is off. A training case counts forward and
backward. All functions here need a GPU.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median, quantiles

import torch

from agent.errors import EnvironmentFault
from agent.kernels import clock
from agent.kernels.case import Case
from agent.kernels.manifest import Measured, Rival, Times
from agent.problems import gpu_cards, roofline

FLUSH_BYTES = 256 << 20
ROUNDS = 60
LARGE_MS = 2.0
LARGE_ROUNDS = 30
Call = Callable[[], object]


@dataclass(frozen=True)
class Machine:
    """GPU, driver and commit of a measurement."""

    gpu: str
    driver: str
    commit: str


def machine(commit: str) -> Machine:
    """Return the present GPU. Raises EnvironmentFault if there is none."""
    if not torch.cuda.is_available():
        raise EnvironmentFault("no usable NVIDIA GPU found; timing needs one")
    return Machine(torch.cuda.get_device_name(), _driver(), commit)


def measured(case: Case, here: Machine) -> Measured:
    """Return the times of one case. Raises EnvironmentFault without a GPU."""
    disable_tf32()
    ours, eager = case.call(case.ours), case.call(case.native)
    # Cases share one function. Without a reset torch compiles it for dynamic sizes from the second shape on,
    # and runs it in eager mode after eight shapes.
    torch.compiler.reset()
    compiled = case.call(torch.compile(case.native))
    for call in (ours, eager, compiled) * 3:
        call()
    rivals = {name: case.call(rival) for name, rival in case.rivals.items()}
    rounds = list(_rounds({"ours": ours, "eager": eager, "compile": compiled, **rivals}, case.in_a_row))
    errors = case.errors()
    error, native = errors["ours"], errors["native"]
    own = [spans["ours"] for spans in rounds]
    return Measured(
        gpu=here.gpu, driver=here.driver, cuda=str(torch.version.cuda), torch=torch.__version__,
        date=datetime.now(UTC).date().isoformat(), commit=here.commit, shape=case.shape,
        dtype=case.dtype_name, setting=case.setting, candidate_ms=times_of(own),
        eager_ms=times_of([spans["eager"] for spans in rounds]),
        compile_ms=times_of([spans["compile"] for spans in rounds]),
        roofline_fraction=_roofline(case, here.gpu, own), max_abs_err=error.largest, rms_err=error.rms,
        native_max_abs_err=native.largest, native_rms_err=native.rms, ratio_ci=interval(rounds),
        rivals={
            name: Rival(
                ms=times_of([spans[name] for spans in rounds]), max_abs_err=errors[name].largest,
                rms_err=errors[name].rms,
            )
            for name in rivals
        },
    )  # fmt: skip


def disable_tf32() -> None:
    """Turn TF32 off in this process, so that float32 products are computed in float32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def fastest(rounds: list[dict[str, float]], names: Iterable[str]) -> str:
    """Return the name of the side with the lowest median time."""
    return min(names, key=lambda name: median(spans[name] for spans in rounds))


def interval(
    rounds: list[dict[str, float]], names: Iterable[str] = ("eager", "compile")
) -> tuple[float, float]:
    """Return the 95 % interval of the median of (time of the fastest of `names` / time of the kernel).

    The interval is taken from the order statistics of the rounds.
    """
    better = fastest(rounds, names)
    ratios = sorted(spans[better] / spans["ours"] for spans in rounds)
    half = 0.98 * math.sqrt(len(ratios))
    low, high = math.floor(len(ratios) / 2 - half), math.ceil(len(ratios) / 2 + half)
    return ratios[max(low, 0)], ratios[min(high, len(ratios) - 1)]


def _rounds(calls: dict[str, Call], in_a_row: int) -> Iterator[dict[str, float]]:
    timed = Clock()
    first = {name: timed(call, in_a_row) for name, call in calls.items()}
    count = LARGE_ROUNDS if max(first.values()) > LARGE_MS else ROUNDS
    for _ in range(count):
        order = random.sample(list(calls), len(calls))
        yield {name: timed(calls[name], in_a_row) for name in order}


class Clock:
    """Callable that measures the milliseconds of a call on the present GPU."""

    def __init__(self) -> None:
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def __call__(self, call: Call, in_a_row: int = 1) -> float:
        """Return the milliseconds of one call.

        A single call meets a cold L2 and is queued behind other work, as on a busy GPU.
        """
        if in_a_row == 1:
            return clock.queued(call, self._flush.zero_)
        return clock.in_a_row(call, in_a_row)


def times_of(values: list[float]) -> Times:
    """Return the percentiles 20, 50 and 80 of the times."""
    fifths = quantiles(values, n=5, method="inclusive")
    return Times(p20=round(fifths[0], 6), p50=round(median(values), 6), p80=round(fifths[3], 6))


def _roofline(case: Case, gpu: str, own: list[float]) -> float | None:
    known = gpu_cards.card(gpu)
    if known is None or known.copy_gb_s is None:
        return None
    arithmetic = case.flops / (roofline.product_tflops(known.peaks) * 1e12)
    least = max(case.least_bytes / (known.copy_gb_s * 1e9), arithmetic)
    return round(least * 1000 / median(own), 4)


def _driver() -> str:
    import subprocess

    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return answer.splitlines()[0].strip()
