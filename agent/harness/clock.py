"""The clock: a verified candidate and the reference timed in turns, each in its own process.

In every round the oracle writes fresh contents into the memory of the inputs just before the candidate's
call, and candidate and reference are called once each, in an order that turns round from one round to the
next. Events in the candidate's process are its own claim. So the judge has clocks of its own, and the largest
counts: the wall time from a command until the oracle has taken the outputs, less that of a module that does
nothing; the slope of the wall time over two numbers of calls in a row; and, where there is room for it, the
same for calls that are each on contents of their own, all of whose outputs have to be there at the end.

The outputs of every timed call are glanced at, those of a secret sample and of the last are compared with the
truth. What the clock cannot see is in `docs/integrity-protocol.md`.
"""

import secrets
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from agent.harness.bench import Ask, Bench
from agent.harness.measuring import FRESH_FEW, UNSTABLE, Round, Times, spread

WARM_UP = 3
ROUNDS, LEAST_ROUNDS = 100, 12
BUDGET_S = 8.0
SAMPLED = 4
"""Rounds whose outputs are held against the truth, beside the last; one of them among the first."""
SLOPES = 5
SLOPE_MS = 20.0
"""What the calls of one slope take together, so that the noise of a wall time is small beside it."""
FEW, MOST = 5, 400
FRESH_MOST, FRESH_SLOPES = 32, 3
"""Calls in a row on contents of their own, and how often."""
LAUNCH_BOUND_MS = 0.2
"""Below this eager time a CUDA graph of the reference is a baseline as well."""


def timed(bench: Bench, compiled: bool = True) -> Times:
    """Times of one candidate; once more where they are unstable."""
    command = {"do": "baselines", "compiled": compiled, "launch_bound_ms": LAUNCH_BOUND_MS}
    names = bench.oracle(command)["names"]
    times = _timed(bench, names)
    if spread(times.of("candidate")) > UNSTABLE:
        times = _timed(bench, names)
    return times._replace(fresh=_fresh(bench))


def _timed(bench: Bench, names: list[str]) -> Times:
    list(_rounds(bench, names, WARM_UP, 0.0))
    rounds = list(_rounds(bench, names, ROUNDS, BUDGET_S))
    slopes, numbers = {}, {}
    for name in ("candidate", *names):
        about = median(entry.events[name] for entry in rounds)
        many = numbers[name] = FEW + min(max(int(SLOPE_MS / about), FEW), MOST)
        slopes[name] = median(_slope(bench, name, FEW, many) for _ in range(SLOPES))
    return Times(rounds, slopes, bench.oracle({"do": "card"}), many=numbers)


def _rounds(bench: Bench, names: list[str], most: int, budget_s: float) -> Iterator[Round]:
    started, least = time.monotonic(), min(most, LEAST_ROUNDS)
    sampled = {secrets.randbelow(least), *(secrets.randbelow(most) for _ in range(SAMPLED - 1))}
    for number in range(most):
        late = number + 1 >= least and time.monotonic() - started > budget_s
        last = late or number + 1 == most
        order = ["candidate", "nothing", *names]
        yield _round(bench, order[:: -1 if number % 2 else 1], last or number in sampled)
        if last:
            return


def _round(bench: Bench, order: list[str], closely: bool) -> Round:
    events: dict[str, float] = {}
    walls: dict[str, float] = {}
    for name in order:
        if name == "nothing":
            walls[name], _ = _wall(bench, bench.nothing, {"do": "timed"})
        elif name == "candidate":
            # Not before: whoever sees contents early could begin with them early.
            bench.oracle({"do": "refresh", "seed": secrets.randbits(62)})
            walls[name], answer = _wall(bench, bench.candidate, {"do": "timed"})
            events[name] = _positive(answer.get("ms"))
            bench.check(answer, closely=closely)
        else:
            events[name] = _positive(bench.oracle({"do": "timed", "what": name}).get("ms"))
    return Round(events, walls["candidate"] - walls["nothing"], walls["nothing"])


def _wall(bench: Bench, ask: Ask, command: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Milliseconds until the oracle has copied what came of the command, and the answer."""
    started = time.monotonic()
    answer = ask(command)
    bench.oracle({"do": "take"})
    return 1000 * (time.monotonic() - started), answer


def _slope(bench: Bench, name: str, few: int, many: int) -> float:
    """Milliseconds of each call in a row of them."""
    if name != "candidate":
        return _positive(bench.oracle({"do": "slope", "what": name, "few": few, "many": many}).get("ms"))
    walls = []
    for times in (few, many):
        bench.oracle({"do": "refresh", "seed": secrets.randbits(62)})
        wall, answer = _wall(bench, bench.candidate, {"do": "repeated", "times": times})
        bench.check(answer, closely=False)
        walls.append(wall)
    return (walls[1] - walls[0]) / (many - few)


def _fresh(bench: Bench) -> float | None:
    """Milliseconds of each call in a row on contents of their own, beyond those of nothing."""
    room = bench.oracle({"do": "room_for_row", "least": 2 * FRESH_FEW, "most": FRESH_MOST})
    calls = int(room.get("calls", 0))
    if not calls:
        return None
    bench.oracle({"do": "fill_row", "seeds": [secrets.randbits(62) for _ in range(calls)]})
    for ask in (bench.nothing, bench.candidate):
        ask({"do": "prepare_row", "row": room["row"]})
        # The first row allocates memory for later ones.
        ask({"do": "row", "times": calls})
    return median(_fresh_slope(bench, calls) for _ in range(FRESH_SLOPES))


def _fresh_slope(bench: Bench, many: int) -> float:
    walls = []
    for times in (FRESH_FEW, many):
        seeds = [secrets.randbits(62) for _ in range(times)]
        nothing = _row_wall(bench, bench.nothing, times)[0]
        bench.oracle({"do": "fill_row", "seeds": seeds})
        wall, answer = _row_wall(bench, bench.candidate, times)
        bench.check_of_row(answer, seeds[-1])
        number = secrets.randbelow(times)
        bench.oracle({"do": "take_of_row", "number": number})
        bench.check_of_row(answer, seeds[number])
        walls.append(wall - nothing)
    return (walls[1] - walls[0]) / (many - FRESH_FEW)


def _row_wall(bench: Bench, ask: Ask, times: int) -> tuple[float, dict[str, Any]]:
    """Milliseconds until the oracle has the outputs of the last call, and the answer."""
    started = time.monotonic()
    answer = ask({"do": "row", "times": times})
    bench.oracle({"do": "take_of_row", "number": times - 1})
    return 1000 * (time.monotonic() - started), answer


def _positive(value: object) -> float:
    return max(float(value), 1e-6) if isinstance(value, (int, float)) else 1e-6
