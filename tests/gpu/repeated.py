"""Every row of the sweep, again and again: `python -m tests.gpu.repeated [--seconds S] [--only NAME...]`.

A kernel that reads what another thread, or the copy engine, has not written yet or has overwritten is right
nearly always: one chunk of ten million was wrong in a kernel that every other check had passed. So each row's
call is made as often as its share of the time allows, at the sizes of the sweep, and its results have to be
those of the first call to the bit; those are held against torch's, roughly. Exits 1 where a row differs.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable

import torch

from agent.kernels import sources
from agent.kernels.case import Case, Function
from agent.kernels.sweep import grid

ROUGHLY = 0.25
"""Of the largest value: what is wrong here is wrong by much, and torch adds up 16-bit values coarsely."""
CALLS = 2000


def results(call: Callable[[], object]) -> list[torch.Tensor]:
    """Tensors of one call."""
    found = call()
    return [found] if isinstance(found, torch.Tensor) else list(found)  # type: ignore[call-overload]


def differing(one: list[torch.Tensor], other: list[torch.Tensor]) -> str | None:
    """The first result whose bits differ, with how many elements do and where the first of them is."""
    for number, (first, again) in enumerate(zip(one, other, strict=True)):
        if torch.equal(first, again) or (first.isnan() & again.isnan() | (first == again)).all():
            continue
        places = (first != again).reshape(-1).nonzero().reshape(-1)
        off = float((first.double() - again.double()).abs().nan_to_num().max())
        return f"result {number}: {places.numel()} elements from {int(places[0])} on, by up to {off:.3g}"
    return None


def far(ours: list[torch.Tensor], native: list[torch.Tensor]) -> str | None:
    """The first result far from torch's where that is finite: label smoothing overflows float16 there."""
    for number, (mine, theirs) in enumerate(zip(ours, native, strict=True)):
        if not theirs.is_floating_point():
            continue
        finite = theirs.isfinite()
        error, largest = (float(torch.where(finite, t, 0).abs().max()) for t in (mine - theirs, theirs))
        if not error <= ROUGHLY * largest:
            return f"result {number} is {error:.3g} off torch's {largest:.3g}"
    return None


def drawn(case: Case, side: Function) -> Callable[[], object]:
    """The call of one side; the gradients of steps are the same for both, and not the input again."""
    torch.manual_seed(1)
    return case.call(side)


def watched(entry: grid.Entry, seconds: float) -> tuple[int, int, str | None]:
    """How many calls were made, how many differed from the first, and what the first of those was."""
    case = entry.case
    call = drawn(case, case.ours)
    first = [tensor.clone() for tensor in results(call)]
    fault = far(first, results(drawn(case, case.native)))
    if fault is not None:
        return 1, 1, fault
    made, wrong, said = 1, 0, None
    end = time.monotonic() + seconds
    while made < CALLS and time.monotonic() < end:
        found = differing(first, results(call))
        made, wrong, said = made + 1, wrong + (found is not None), said or found
    return made, wrong, said


def entries(only: Iterable[str]) -> tuple[grid.Entry, ...]:
    """The sweep's rows of kernels whose names begin so, or of all."""
    begins = tuple(only) or ("",)
    return grid.in_turn([name for name in sources.NAMES if name.startswith(begins)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each row; default 0.1")
    parser.add_argument("--only", nargs="+", default=[], help="kernels whose names begin so")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.stderr.write("no NVIDIA GPU answers here: this check needs one\n")
        return 3
    calls = rows = faulty = 0
    for number, entry in enumerate(entries(given.only)):
        sys.stderr.write(f"\r{number} {entry.name}"[:79] + " " * 8)
        try:
            made, wrong, said = watched(entry, given.seconds)
        except Exception as error:  # noqa: BLE001 - one row's failure is a line of the report
            made, wrong, said = 1, 1, f"{type(error).__name__}: {error}"[:300]
        rows, calls, faulty = rows + 1, calls + made, faulty + (wrong > 0)
        if said is not None:
            sys.stdout.write(f"{entry.name}: {wrong} of {made} calls, {said}\n")
            sys.stdout.flush()
        torch.cuda.empty_cache()
    sys.stdout.write(f"{rows} rows, {calls} calls, {faulty} rows differ\n")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())
