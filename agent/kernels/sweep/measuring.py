"""Measurement of one row: preparing it takes seconds of a processor, timing it needs the GPU alone.

Each side has tensors of its own with the same values. A peer that does not support the call is left out, and
the reason noted.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

import torch

from agent.kernels import manifest
from agent.kernels.benching import Call, Machine, fastest, interval, times_of
from agent.kernels.case import Case, Function
from agent.kernels.sweep.grid import Entry, is_held_back
from agent.kernels.sweep.rows import Row

ROUNDS, LARGE_MS, LARGE_ROUNDS = 15, 2.0, 9
WARM = 3
SHORT_MS, IN_A_ROW, SERIES = 0.5, 10, 3
"""Milliseconds below which calls are timed back to back as well.

IN_A_ROW is the number of calls in a series, and SERIES the number of series for the median."""
Compiler = Callable[[Function, str | None], Function]


@dataclass(frozen=True)
class Means:
    """Device, compiler and clock that a process measures rows with."""

    device: str
    compiled: Compiler
    """(function, torch.compile's mode) -> the compiled function."""
    clock: Callable[[Call, int], float]
    """(call, number of calls back to back) -> milliseconds per call."""
    release: Callable[[], None]
    """Function that gives back unused GPU memory."""


@dataclass(frozen=True)
class Ready:
    """Row that is ready to be timed."""

    entry: Entry
    sides: dict[str, Function]
    """Functions by name: `ours`, then the peers."""
    errors: dict[str, tuple[float, float]]
    notes: dict[str, str]


def made_ready(entry: Entry, means: Means, mode: str | None = None) -> Ready:
    """Call every side once, which compiles it. A `mode` of torch.compile adds one more side."""
    case = entry.case
    sides: dict[str, Function] = {"ours": case.ours, "eager": case.native}
    sides["compile"] = means.compiled(case.native, None)
    if mode is not None:
        sides[mode] = means.compiled(case.native, mode)
    sides.update(case.rivals)
    notes = {}
    for name, side in list(sides.items()):
        try:
            case.call(side, means.device)()
        except Exception as error:  # noqa: BLE001  # a foreign kernel or compiler; ours and eager have to work
            if name in ("ours", "eager"):
                raise
            notes[name] = _first_line(error)
            del sides[name]
    working = {name: rival for name, rival in case.rivals.items() if name in sides}
    errors = {
        name: (error.largest, error.rms)
        for name, error in replace(case, rivals=working).errors(means.device).items()
    }
    means.release()
    return Ready(entry, sides, errors, notes)


def timed(ready: Ready, means: Means, here: Machine) -> Row:
    """Return the measured row. No other process may use the GPU meanwhile."""
    case = ready.entry.case
    calls = {name: case.call(side, means.device) for name, side in ready.sides.items()}
    if not case.macs:
        calls["copy"] = _copy(case, means.device)
    for call in (*calls.values(),) * WARM:
        call()
    rounds = _rounds(calls, means)
    peers = [name for name in ready.sides if name != "ours"]
    in_a_row = _in_a_row({name: calls[name] for name in ready.sides}, rounds, means)
    best = fastest(rounds, peers)
    del calls
    means.release()
    spans = {name: times_of([one[name] for one in rounds]) for name in rounds[0]}
    return Row(
        name=ready.entry.name, kernel=case.kernel, source=ready.entry.source, shape=case.shape,
        dtype=case.dtype_name, setting=case.setting, is_held_back=is_held_back(case), gpu=here.gpu,
        driver=here.driver, cuda=str(torch.version.cuda), torch=torch.__version__,
        date=datetime.now(UTC).date().isoformat(), commit=here.commit,
        files=manifest.fingerprint(case.kernel), ours_ms=spans["ours"],
        peers_ms={name: spans[name] for name in peers}, copy_ms=spans.get("copy"), in_a_row_ms=in_a_row,
        best=best, ratio=round(median(one[best] / one["ours"] for one in rounds), 4),
        ratio_ci=interval(rounds, peers), errors=ready.errors, notes=ready.notes,
    )  # fmt: skip


def _rounds(calls: dict[str, Call], means: Means) -> list[dict[str, float]]:
    first = {name: means.clock(call, 1) for name, call in calls.items()}
    count = LARGE_ROUNDS if max(first.values()) > LARGE_MS else ROUNDS
    orders = (random.sample(list(calls), len(calls)) for _ in range(count))
    return [{name: means.clock(calls[name], 1) for name in order} for order in orders]


def _in_a_row(calls: dict[str, Call], rounds: list[dict[str, float]], means: Means) -> dict[str, float]:
    if median(one["ours"] for one in rounds) >= SHORT_MS:
        return {}
    series = [{name: means.clock(call, IN_A_ROW) for name, call in calls.items()} for _ in range(SERIES)]
    return {name: round(median(one[name] for one in series), 6) for name in calls}


def _copy(case: Case, device: str) -> Call:
    """Return a call that copies as many bytes as the case's call has to move."""
    half = max(case.least_bytes // 2, 1)
    source, target = (torch.zeros(half, dtype=torch.uint8, device=device) for _ in range(2))

    def copy() -> Any:
        return target.copy_(source)

    return copy


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
