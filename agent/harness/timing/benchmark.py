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
from statistics import median
from typing import Any

from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import to_oracle, to_worker
from agent.harness.timing.processes import TimedProcesses, TimedWorker
from agent.harness.timing.stats import (
    FRESH_FEW,
    HOST_BOUND,
    UNSTABLE,
    Round,
    Times,
    certain,
    disagree,
    spread,
)
from agent.harness.worker import worker_commands
from agent.records import MoreBaselines

WARM_UP = 3
ROUNDS, LEAST_ROUNDS = 100, 12
BUDGET_S = 3.0
"""Of rounds whose medians do not become certain: they hold the GPU, and the interval tells what is open."""
SAMPLED = 4
"""Rounds whose outputs are held against the truth, beside the last; one of them among the first."""
LEAST_SLOPES, SLOPES = 3, 5
STEADY = 0.01
"""Share of their median by which slopes may be apart for further ones to tell nothing."""
NOT_HELD_UP = HOST_BOUND / 2
"""Share by which a baseline's first slope may be above its calls for no further one to be taken: it would
have to be as much off again to count."""
SLOPE_MS = 20.0
"""What the calls of one slope take together, so that the noise of a wall time is small beside it."""
FEW, MOST = 5, 400
ROW_WARM_UP = 2
"""Calls of a row that is not counted: the first one allocates memory for later ones."""
FRESH_MOST, FRESH_SLOPES = 32, 3
"""Calls in a row on contents of their own, and how often."""
LAUNCH_BOUND_MS = 0.2
"""Below this eager time a CUDA graph of the reference is a baseline as well."""


def timed(processes: TimedProcesses, compiled: bool = True, more: tuple[MoreBaselines, ...] = ()) -> Times:
    """Times of one candidate. `more`: baselines beside the usual ones.

    They are taken once more where they are unstable or the clocks disagree: a process that begins or ends on
    the same GPU holds up whoever is timed, and a candidate that works behind the events does so again.
    """
    wanted = oracle_commands.Baselines(compiled, LAUNCH_BOUND_MS, list(more))
    names = processes.oracle(to_oracle(wanted))["names"]
    times = _timed(processes, names)
    if spread(times.of("candidate")) > UNSTABLE or disagree(times):
        times = _timed(processes, names)
    return times


def _timed(processes: TimedProcesses, names: list[str]) -> Times:
    _rounds(processes, names, WARM_UP, 0.0, samples=0)
    rounds = _rounds(processes, names, ROUNDS, BUDGET_S, SAMPLED)
    slopes, rows = {}, {}
    for name in ("candidate", *names):
        about = median(entry.events[name] for entry in rounds)
        rows[name] = row_lengths(about)
        slopes[name] = _median_slope(processes, name, rows[name], about)
    card = processes.oracle(to_oracle(oracle_commands.Card()))
    return Times(rounds, slopes, card, _fresh(processes), rows)


def row_lengths(call_ms: float) -> tuple[int, int]:
    """How many calls the two rows of a slope have."""
    return FEW, FEW + min(max(int(SLOPE_MS / call_ms), FEW), MOST)


def _rounds(
    processes: TimedProcesses, names: list[str], most: int, budget_s: float, samples: int
) -> list[Round]:
    """As many as it takes until the medians are certain, within the budget; `samples`: as SAMPLED."""
    started, least = time.monotonic(), min(most, LEAST_ROUNDS)
    # The first of them before the earliest last round, which is compared whatever was drawn.
    sampled = {secrets.randbelow(most if number else least - 1) for number in range(samples)}
    rounds: list[Round] = []
    while len(rounds) < most:
        number = len(rounds)
        is_over = time.monotonic() - started > budget_s or certain(rounds)
        last = number + 1 == most or (number + 1 >= least and is_over)
        order = ["candidate", "nothing", *names]
        closely = number in sampled or (last and samples > 0)
        rounds.append(_round(processes, order[:: -1 if number % 2 else 1], closely))
        if last:
            break
    return rounds


def _round(processes: TimedProcesses, order: list[str], closely: bool) -> Round:
    events: dict[str, float] = {}
    walls: dict[str, float] = {}
    for name in order:
        if name == "nothing":
            walls[name], _ = _wall(processes, processes.noop, to_worker(worker_commands.Timed()))
        elif name == "candidate":
            # Not before: whoever sees contents early could begin with them early.
            processes.oracle(to_oracle(oracle_commands.Refresh(secrets.randbits(62))))
            walls[name], answer = _wall(processes, processes.candidate, to_worker(worker_commands.Timed()))
            events[name] = _positive(answer.get("ms"))
            processes.check(answer, closely=closely)
        else:
            events[name] = _positive(processes.oracle(to_oracle(oracle_commands.Timed(name))).get("ms"))
    return Round(events, walls["candidate"] - walls["nothing"], walls["nothing"])


def _wall(
    processes: TimedProcesses, worker: TimedWorker, command: dict[str, Any]
) -> tuple[float, dict[str, Any]]:
    """Milliseconds until the oracle has copied what came of the command, and the answer."""
    started = time.monotonic()
    answer = worker.timed(command)
    processes.oracle(to_oracle(oracle_commands.Take()))
    return 1000 * (time.monotonic() - started), answer


def _median_slope(processes: TimedProcesses, name: str, lengths: tuple[int, int], about: float) -> float:
    """`about`: milliseconds of a call, of whose slope one is enough where it cannot count."""
    found: list[float] = []
    if name == "candidate":
        _row(processes, ROW_WARM_UP)
    while len(found) < SLOPES:
        found.append(_slope(processes, name, *lengths))
        if name != "candidate" and found[-1] <= (1 + NOT_HELD_UP) * about:
            break
        if len(found) >= LEAST_SLOPES and max(found) - min(found) <= STEADY * median(found):
            break
    return median(found)


def _slope(processes: TimedProcesses, name: str, few: int, many: int) -> float:
    """Milliseconds of each call in a row of them."""
    if name != "candidate":
        return _positive(processes.oracle(to_oracle(oracle_commands.Slope(name, few, many))).get("ms"))
    walls = [_row(processes, times) for times in (few, many)]
    return (walls[1] - walls[0]) / (many - few)


def _row(processes: TimedProcesses, times: int) -> float:
    """Milliseconds of so many calls in a row, on fresh contents."""
    processes.oracle(to_oracle(oracle_commands.Refresh(secrets.randbits(62))))
    wall, answer = _wall(processes, processes.candidate, to_worker(worker_commands.Repeated(times)))
    processes.check(answer, closely=False)
    return wall


def _fresh(processes: TimedProcesses) -> float | None:
    """Milliseconds of each call in a row on contents of their own, beyond those of nothing."""
    room = processes.oracle(to_oracle(oracle_commands.RoomForRow(2 * FRESH_FEW, FRESH_MOST)))
    calls = int(room.get("calls", 0))
    if not calls:
        return None
    processes.oracle(to_oracle(oracle_commands.FillRow([secrets.randbits(62) for _ in range(calls)])))
    for worker in (processes.noop, processes.candidate):
        worker.timed(to_worker(worker_commands.PrepareRow(room["row"])))
        # The first row allocates memory for later ones.
        worker.timed(to_worker(worker_commands.Row(calls)))
    return median(_fresh_slope(processes, calls) for _ in range(FRESH_SLOPES))


def _fresh_slope(processes: TimedProcesses, many: int) -> float:
    walls = []
    for times in (FRESH_FEW, many):
        seeds = [secrets.randbits(62) for _ in range(times)]
        nothing = _row_wall(processes, processes.noop, times)[0]
        processes.oracle(to_oracle(oracle_commands.FillRow(seeds)))
        wall, answer = _row_wall(processes, processes.candidate, times)
        processes.check_of_row(answer, seeds[-1])
        number = secrets.randbelow(times)
        processes.oracle(to_oracle(oracle_commands.TakeOfRow(number)))
        processes.check_of_row(answer, seeds[number])
        walls.append(wall - nothing)
    return (walls[1] - walls[0]) / (many - FRESH_FEW)


def _row_wall(processes: TimedProcesses, worker: TimedWorker, times: int) -> tuple[float, dict[str, Any]]:
    """Milliseconds until the oracle has the outputs of the last call, and the answer."""
    started = time.monotonic()
    answer = worker.timed(to_worker(worker_commands.Row(times)))
    processes.oracle(to_oracle(oracle_commands.TakeOfRow(times - 1)))
    return 1000 * (time.monotonic() - started), answer


def _positive(value: object) -> float:
    return max(float(value), 1e-6) if isinstance(value, (int, float)) else 1e-6
