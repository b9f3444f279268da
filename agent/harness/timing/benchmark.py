"""Clock that times a verified candidate and the reference in turns, each in its own process.

In every round, the oracle writes fresh inputs just before the candidate's call. Candidate and reference are
called once each, in an order that alternates from round to round. CUDA events in the candidate's process are
its own claim, so the judge has clocks of its own, and the largest time counts:

- the wall time from a command until the oracle has copied the outputs, minus that of the noop worker
- the wall time per call in a row, from the difference between a short and a long row
- if memory suffices, the time per call in rows with separate inputs, which have to leave all their outputs

The outputs of every timed call get a quick check. Those of a secret sample and of the last call are compared
with the ground truth. `docs/integrity-protocol.md` lists what the clock cannot see.
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

FLUSHES, MOST_FLUSHES = 5, 80
"""Overwrites of the L2 cache before each call of a round, doubled after a round with late launches."""
WARM_UP = 3
ROUNDS, LEAST_ROUNDS = 100, 12
FEW_ROUNDS = 5
"""Minimum number of rounds if LEAST_ROUNDS rounds would exceed the budget."""
BUDGET_S = 1.5
"""Maximum seconds of rounds while their medians are uncertain, since they hold the GPU."""
UNSTABLE_BUDGET_S = 3.0
"""Maximum seconds of rounds while the candidate's times spread by more than UNSTABLE."""
SAMPLED = 4
"""Number of rounds, besides the last, whose outputs are compared with the ground truth; one is early."""
SLOPES = 3
"""Number of slopes (time per call in a row); the smallest counts, as delays only lengthen one."""
NOT_HELD_UP = HOST_BOUND / 2
"""Relative excess of a baseline's slope over its single calls up to which no further slope is measured.

A slope counts only if its excess is twice as large.
"""
SLOPE_MS = 20.0
"""Total milliseconds of the calls of one slope, chosen to make the noise of a wall time small."""
FEW, MOST = 5, 400
SURELY_BUSY = 4.0
"""Ratio of a call's GPU time to its host processor time above which the host cannot hold up a row."""
ROW_WARM_UP = 2
"""Number of calls in a row that is not timed, whose first call allocates memory for later rows."""
FRESH_MOST, FRESH_SLOPES = 32, 3
"""Maximum number of calls in a row with separate inputs, and the number of slopes of these rows."""
LAUNCH_BOUND_MS = 0.2
"""Eager time in milliseconds below which a CUDA graph of the reference is a baseline as well."""


def prepared(
    processes: TimedProcesses, compiled: bool = True, more: tuple[MoreBaselines, ...] = ()
) -> list[str]:
    """Prepare the baselines and return their names; `more` names further baselines."""
    wanted = oracle_commands.Baselines(compiled, LAUNCH_BOUND_MS, list(more))
    return list(processes.oracle(to_oracle(wanted))["names"])


def timed(processes: TimedProcesses, names: list[str]) -> Times:
    """Return times of the candidate and of the baselines `names`.

    If the judge's clocks disagree with the CUDA events, the rows are measured once more. A disagreement by
    chance then disappears, but not that of a candidate that hides work from the events.
    """
    warm_up = _rounds(processes, names, WARM_UP, 0.0, samples=0)
    rounds = _rounds(processes, names, ROUNDS, BUDGET_S, SAMPLED, _flushes_after(warm_up[-1]))
    times = _with_rows(processes, names, rounds)
    return _with_rows(processes, names, rounds) if disagree(times) else times


def _with_rows(processes: TimedProcesses, names: list[str], rounds: list[Round]) -> Times:
    """Return the rounds together with the times of calls in a row."""
    slopes, rows = {}, {}
    for name in ("candidate", *names):
        about = median(entry.events[name] for entry in rounds)
        rows[name] = row_lengths(about)
        host_ms = median(entry.host.get(name, about) for entry in rounds)
        if name != "candidate" and about > SURELY_BUSY * host_ms:
            slopes[name] = about
        else:
            slopes[name] = _least_slope(processes, name, rows[name], about)
    card = processes.oracle(to_oracle(oracle_commands.Card()))
    about = median(entry.events["candidate"] for entry in rounds)
    return Times(rounds, slopes, card, _fresh(processes, about), rows)


def row_lengths(call_ms: float) -> tuple[int, int]:
    """Return the numbers of calls in the short and the long row of a slope."""
    return FEW, FEW + min(max(int(SLOPE_MS / call_ms), FEW), MOST)


def _rounds(
    processes: TimedProcesses,
    names: list[str],
    most: int,
    budget_s: float,
    samples: int,
    flushes: int = FLUSHES,
) -> list[Round]:
    """Time rounds until the medians are certain or the budget is spent.

    The outputs of `samples` random rounds are compared with the ground truth.
    """
    started, least = time.monotonic(), min(most, LEAST_ROUNDS)
    # Draw the first sample before the earliest possible last round, so that it is always compared.
    sampled = {secrets.randbelow(most if number else min(least, FEW_ROUNDS) - 1) for number in range(samples)}
    rounds: list[Round] = []
    while len(rounds) < most:
        number, passed_s = len(rounds), time.monotonic() - started
        enough = least if passed_s <= budget_s else FEW_ROUNDS
        last = number + 1 == most or (number + 1 >= enough and _is_over(rounds, passed_s, budget_s))
        order = ["candidate", "nothing", *names]
        closely = number in sampled or (last and samples > 0)
        rounds.append(_round(processes, order[:: -1 if number % 2 else 1], closely, flushes))
        flushes = _flushes_after(rounds[-1])
        if last:
            break
    return rounds


def _is_over(rounds: list[Round], passed_s: float, budget_s: float) -> bool:
    """Return True once further rounds add nothing or would hold the GPU for too long."""
    if certain(rounds):
        return True
    times = [entry.events["candidate"] for entry in rounds]
    if budget_s and len(rounds) >= LEAST_ROUNDS and spread(times) > UNSTABLE:
        budget_s = max(budget_s, UNSTABLE_BUDGET_S)
    return passed_s > budget_s


def _flushes_after(last: Round) -> int:
    """Return the number of overwrites of the L2 cache before each call of the next round."""
    return min(2 * last.flushes, MOST_FLUSHES) if last.late else last.flushes


def _round(processes: TimedProcesses, order: list[str], closely: bool, flushes: int) -> Round:
    events: dict[str, float] = {}
    host: dict[str, float] = {}
    walls: dict[str, float] = {}
    late: set[str] = set()
    card: dict[str, Any] = {}
    for name in order:
        if name == "nothing":
            walls[name], _, _ = _wall(processes, processes.noop, to_worker(worker_commands.Timed(flushes)))
            continue
        if name == "candidate":
            # Refresh only now: a process that sees the inputs early could begin computing early.
            processes.oracle(to_oracle(oracle_commands.Refresh(secrets.randbits(62))))
            timed = to_worker(worker_commands.Timed(flushes))
            walls[name], answer, card = _wall(processes, processes.candidate, timed)
            processes.check(answer, closely=closely)
        else:
            answer = processes.oracle(to_oracle(oracle_commands.Timed(name, flushes)))
        events[name] = _positive(answer.get("ms"))
        if "host_ms" in answer:
            host[name] = _positive(answer["host_ms"])
        late |= {name} if answer.get("is_late") else set()
    return Round(
        events, walls["candidate"] - walls["nothing"], walls["nothing"], host, frozenset(late),
        order[0] == "candidate", card, flushes,
    )  # fmt: skip


def _wall(
    processes: TimedProcesses, worker: TimedWorker, command: dict[str, Any]
) -> tuple[float, dict[str, Any], dict[str, Any]]:
    """Return the milliseconds until the oracle has copied the outputs, the answer, and the GPU's state."""
    started = time.monotonic()
    answer = worker.timed(command)
    taken = processes.oracle(to_oracle(oracle_commands.Take()))
    return 1000 * (time.monotonic() - started), answer, taken.get("card") or {}


def _least_slope(processes: TimedProcesses, name: str, lengths: tuple[int, int], about: float) -> float:
    """Return the milliseconds per call in a row, the least of several slopes.

    A baseline gets no further slope once one is near `about`, the milliseconds of a single call.
    """
    if name == "candidate":
        _row(processes, ROW_WARM_UP)
        rows = [[_row(processes, times) for times in lengths] for _ in range(SLOPES)]
        few, many = (min(walls) for walls in zip(*rows, strict=True))
        return float((many - few) / (lengths[1] - lengths[0]))
    found: list[float] = []
    while len(found) < SLOPES:
        found.append(_positive(processes.oracle(to_oracle(oracle_commands.Slope(name, *lengths))).get("ms")))
        if found[-1] <= (1 + NOT_HELD_UP) * about:
            break
    return min(found)


def _row(processes: TimedProcesses, times: int) -> float:
    """Return the milliseconds of `times` calls in a row, all on the same fresh inputs."""
    processes.oracle(to_oracle(oracle_commands.Refresh(secrets.randbits(62))))
    wall, answer, _ = _wall(processes, processes.candidate, to_worker(worker_commands.Repeated(times)))
    processes.check(answer, closely=False)
    return wall


def _fresh(processes: TimedProcesses, about: float) -> float | None:
    """Return the milliseconds per call in a row with separate inputs, minus those of the noop worker.

    Returns None if memory does not suffice. `about` is the milliseconds of a call; rows of long calls are
    shorter.
    """
    most = min(max(FRESH_FEW + int(SLOPE_MS / about), 2 * FRESH_FEW), FRESH_MOST)
    room = processes.oracle(to_oracle(oracle_commands.RoomForRow(2 * FRESH_FEW, most)))
    calls = int(room.get("calls", 0))
    if not calls:
        return None
    processes.oracle(to_oracle(oracle_commands.FillRow([secrets.randbits(62) for _ in range(calls)])))
    for worker in (processes.noop, processes.candidate):
        worker.timed(to_worker(worker_commands.PrepareRow(room["row"])))
        # The first row allocates memory for later rows.
        worker.timed(to_worker(worker_commands.Row(calls)))
    rows = [_fresh_rows(processes, calls) for _ in range(FRESH_SLOPES)]
    few, many = (min(walls) for walls in zip(*rows, strict=True))
    return float((many - few) / (calls - FRESH_FEW))


def _fresh_rows(processes: TimedProcesses, many: int) -> list[float]:
    """Return the milliseconds of a short and of a long row, each minus those of the noop worker."""
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
    return walls


def _row_wall(processes: TimedProcesses, worker: TimedWorker, times: int) -> tuple[float, dict[str, Any]]:
    """Return the milliseconds until the oracle has copied the last call's outputs, and the answer."""
    started = time.monotonic()
    answer = worker.timed(to_worker(worker_commands.Row(times)))
    processes.oracle(to_oracle(oracle_commands.TakeOfRow(times - 1)))
    return 1000 * (time.monotonic() - started), answer


def _positive(value: object) -> float:
    return max(float(value), 1e-6) if isinstance(value, (int, float)) else 1e-6
