"""Times the cases of some kernels for as long as a budget lasts, each kernel in turn:
`python -m benchmarks.kernels.brief NAME... [--seconds 60] [--out FILE]`.

A first look at kernels under work, with fewer rounds than `agent kernels bench`; nothing is written to
kernel.json. Needs a GPU.
"""

import argparse
import itertools
import sys
import time
from pathlib import Path

from agent.errors import EnvironmentFault
from agent.kernels import benching, cases
from agent.kernels.case import Case
from agent.kernels.manifest import Measured

ROUNDS = 15


def row(one: Measured, kernel: str) -> str:
    """One line of the table."""
    ours, eager, compiled = (
        times.p50 if times else 0.0 for times in (one.candidate_ms, one.eager_ms, one.compile_ms)
    )
    floor = "?" if one.roofline_fraction is None else f"{one.roofline_fraction:.0%}"
    name = f"{kernel} {list(one.shape)} {one.dtype} {one.setting}"
    times = f"{ours:9.4f} {eager:9.4f} {compiled:9.4f} {min(eager, compiled) / ours:6.2f} {floor:>5}"
    return f"{name:90} {times} {one.max_abs_err:.1e} {one.native_max_abs_err:.1e}"


def in_turn(names: list[str]) -> list[Case]:
    """The first case of each kernel, then the second."""
    each = itertools.zip_longest(*(cases.list_cases(name) for name in names))
    return [case for turn in each for case in turn if case is not None]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    benching.ROUNDS = benching.LARGE_ROUNDS = ROUNDS
    try:
        here = benching.machine("unknown")
    except EnvironmentFault as fault:
        sys.stderr.write(f"{fault}\n")
        return 3
    end = time.monotonic() + given.seconds
    lines = [
        f"{here.gpu}: {'case':80} {'ours ms':>9} {'eager':>9} {'compile':>9} {'best':>6} floor error torch's"
    ]
    left = in_turn(given.names)
    while left and time.monotonic() < end:
        case = left.pop(0)
        try:
            lines.append(row(benching.measured(case, here), case.kernel))
        except Exception as error:  # noqa: BLE001 - one case's failure is a line of the table
            lines.append(f"{case.kernel} {case.shape} {case.setting}: {type(error).__name__}: {error}"[:200])
        if given.out:
            given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines.append(f"{len(left)} cases left when the time was over")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
