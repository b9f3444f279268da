"""How many GPUs a suite can use: `python -m benchmarks.fleet [--out docs/fleet.md]`, a simulation by events.

Runs ask a model, wait for a place among their host's processors and for their GPU's turn as the bench does,
and hold each for as long as the phases of measured verdicts took (benchmarks/results/fleet/phases.json, a
document of `benchmarks.verdict`). One process, the head, takes in whatever ends. What was measured and what
is assumed stands on the page.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks import storage
from benchmarks.fleet_events import Clock, Resource, Step

DOCUMENT = storage.FLEET / "phases.json"
PAGE = storage.ROOT / "docs" / "fleet.md"
POOL_DOCUMENT = storage.VERDICT_TIMES / "cuda-20261126-003808.json"
"""Phases of the version of which the mix was measured."""
MIX = ("right", "wrong")
POOL_VERDICTS, POOL_S = 16, 92.3
"""What was measured of the mix of these cases, four side by side on one GPU with 16 processors."""
SIZES = (8, 16, 32, 64, 128, 256, 512, 1000)
GPUS_OF_A_HOST, PROCESSORS_OF_A_GPU = 8, 16
ON_THE_HOST = ("starting", "building", "preparing")
"""How the phases begin that hold no GPU, in either look."""
BY_THE_EMULATOR = (
    "holding the outputs", "looking for kernels", "checking addresses", "loading the file",
    "probing what else", "repeating the kernels alone",
)  # fmt: skip
"""The same for those of a second look that the emulator makes."""
SECOND, STOCK = "second look, ", "building with stock load_inline"
END_S, END_OF_EACH_S = 0.003, 35e-6
"""Processor time of `bench.outcome.outcome`, and more for each run in the folder: with 50, 200 and 800 runs
3, 5 and 29 ms on one of two loaded processors, on 2026-11-23."""


class Load(NamedTuple):
    """What is simulated; times in seconds."""

    name: str
    answer_s: float
    """A model takes for an answer, on average; 0 where answers are given."""
    shares: dict[str, float]
    """Of the verdicts, by the measured case."""
    runs_of_a_gpu: int
    """At the same time."""
    runs_before: int = 1_000
    """In the bench's folder, where the head looks whenever one ends."""
    head_s: float = 0.005
    """The head takes for the messages of a verdict."""
    verdicts_of_a_run: int = 6
    processors_of_a_step: int = 2
    spread: float = 0.25
    """Deviation of the logarithm of each step."""
    warm_s: float = 600.0
    counted_s: float = 1_800.0

    @property
    def end_s(self) -> float:
        """The head takes for a run that ends, as measured."""
        return END_S + self.runs_before * END_OF_EACH_S


class Found(NamedTuple):
    gpus: int
    per_hour: float
    gpu_busy: float
    processors_busy: float
    head_busy: float
    waits: dict[str, float]
    """Seconds that a verdict waits, on average, for each kind of place."""

    @property
    def stop(self) -> str:
        """What is in the way of more."""
        busy = {"GPUs": self.gpu_busy, "processors": self.processors_busy, "head": self.head_busy}
        name = max(busy, key=lambda one: busy[one])
        return name if busy[name] > FULL else "runs in progress"


FULL = 0.9
"""Share of the time from which on something is the limit."""


def steps(rows: Iterable[dict[str, Any]]) -> dict[str, list[tuple[str, float]]]:
    """Where each measured case spends its time, in order: on the host's processors or in its GPU's turn."""
    return {row["case"]: list(_joined(_places(row["phases"]))) for row in rows if row["at_once"] == 1}


def _places(phases: dict[str, dict[str, float]]) -> Iterator[tuple[str, float]]:
    on_the_gpu = 0.0
    for name, spread in phases.items():
        later, what = name.startswith(SECOND), name.removeprefix(SECOND)
        if later and what == "verifying":
            # Twice in one verdict: the emulator's draws, and the longer ones of the stock build on the GPU.
            on_the_gpu = spread["p90"]
            yield "host", max(2 * spread["median"] - on_the_gpu, 0.0)
        elif later and what == STOCK:
            yield "host", spread["median"]
            yield "gpu", on_the_gpu
        elif what.startswith(ON_THE_HOST) or (later and what.startswith(BY_THE_EMULATOR)):
            yield "host", spread["median"]
        else:
            yield "gpu", spread["median"]


def _joined(places: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    """Steps at one place, one behind the other, are one."""
    kept: tuple[str, float] | None = None
    for place, seconds in places:
        if kept and kept[0] == place:
            kept = place, kept[1] + seconds
            continue
        if kept:
            yield kept
        kept = place, seconds
    if kept:
        yield kept


def simulated(load: Load, cases: dict[str, list[tuple[str, float]]], gpus: int, seed: int = 1) -> Found:
    """What so many GPUs come to with this load."""
    chance, clock = Random(seed), Clock()
    head = Resource(1)
    turns = [Resource(1) for _ in range(gpus)]
    places = GPUS_OF_A_HOST * PROCESSORS_OF_A_GPU // load.processors_of_a_step
    hosts = [Resource(places) for _ in range(-(-gpus // GPUS_OF_A_HOST))]
    ended = [0]

    def run(gpu: int) -> Iterator[Step]:
        at = {"gpu": turns[gpu], "host": hosts[gpu // GPUS_OF_A_HOST]}
        number = chance.randrange(load.verdicts_of_a_run)
        yield Step(None, chance.uniform(0.0, load.answer_s or 20.0))  # runs do not begin all at once
        while True:
            if load.answer_s:
                yield Step(None, chance.expovariate(1 / load.answer_s))
            (case,) = chance.choices(list(load.shares), list(load.shares.values()))
            for place, seconds in cases[case]:
                yield Step(at[place], seconds * chance.lognormvariate(0.0, load.spread))
            number += 1
            ends = number % load.verdicts_of_a_run == 0
            yield Step(head, load.head_s + (load.end_s if ends else 0.0))
            ended[0] += 1

    for number in range(gpus * load.runs_of_a_gpu):
        clock.begin(run(number % gpus))
    clock.run(load.warm_s)
    before = ended[0]
    for resource in (head, *turns, *hosts):
        resource.count_from(load.warm_s)
    clock.run(end := load.warm_s + load.counted_s)
    verdicts = max(ended[0] - before, 1)

    def busy(resources: list[Resource]) -> float:
        return sum(one.busy_s(end) / one.places for one in resources) / len(resources) / load.counted_s

    kinds = {"GPU": turns, "processors": hosts, "head": [head]}
    waits = {name: sum(one.waited_s for one in many) / verdicts for name, many in kinds.items()}
    per_hour = verdicts * 3600 / load.counted_s
    return Found(gpus, per_hour, busy(turns), busy(hosts), busy([head]), waits)


def pool() -> str:
    """The page's part on one GPU, where something was measured to hold against the phases."""
    from benchmarks import fleet_page

    document = json.loads(POOL_DOCUMENT.read_text())
    cases = steps([row for row in document["rows"] if row["case"] in MIX])
    return fleet_page.pool(document, cases, POOL_VERDICTS, POOL_S)


def main(arguments: list[str] | None = None) -> int:
    from benchmarks import fleet_page

    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--document", type=Path, default=DOCUMENT, help="of benchmarks.verdict, on a GPU")
    options.add_argument("--out", type=Path, default=PAGE)
    given = options.parse_args(arguments)
    document = json.loads(given.document.read_text())
    cases = steps(document["rows"])
    found = [(load, [simulated(load, cases, gpus) for gpus in SIZES]) for load in fleet_page.LOADS]
    given.out.write_text(fleet_page.render(document, cases, found) + pool())
    sys.stdout.write(f"{given.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
