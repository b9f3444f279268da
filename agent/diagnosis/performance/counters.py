"""Advice from the counters of NVIDIA's profiler for a kernel.

The input is the output of `ncu --csv --print-units base`. It holds a row for each kernel and metric, among
lines of the profiler and of the program. Source for the meaning of counters: Nsight Compute's profiling guide
and rules.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.diagnosis.performance.printed_rows import rows
from agent.diagnosis.performance.stalls import Waiting

DURATION = "gpu__time_duration.sum"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
MOST_OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"
WAVES = "launch__waves_per_multiprocessor"
_LIMIT = "launch__occupancy_limit_{}"
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = {
    "long_scoreboard": "for global memory: give each thread several independent loads before the first use",
    "lg_throttle": "for room in the queue of global loads: load float4 in the place of single elements",
    "short_scoreboard": "for shared memory: keep what a thread uses again in registers",
    "mio_throttle": "for room in the queue of shared memory: load float4 from it, or use shuffles",
    "barrier": "at barriers: fewer __syncthreads(), or smaller blocks with more of them at a time",
    "math_pipe_throttle": "for arithmetic units: fewer operations, or cheaper ones than division and exp",
    "wait": "for the instruction before: unroll, so that independent instructions lie between",
}
PIPES = {
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": "multiply-add",
    "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active": "integers and comparisons",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": "special functions and conversions",
    "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": "loads and stores",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "tensor cores",
}
METRICS = (
    DURATION, DRAM, READ, WRITTEN,
    "lts__t_sector_hit_rate.pct", "l1tex__t_sector_hit_rate.pct",
    *(_GLOBAL.format(what, way) for what in ("sectors", "requests") for way in ("ld", "st")),
    *(_CONFLICTS.format(way) for way in ("ld", "st")), WAVEFRONTS,
    OCCUPANCY, MOST_OCCUPANCY, WAVES, "launch__registers_per_thread",
    *(_LIMIT.format(what) for what in ("registers", "shared_mem", "warps")), *PIPES,
    *(_STALL.format(name) for name in STALLS),
)  # fmt: skip
MOST_SECTORS = 16.0
"""32-byte sectors per request of a warp that loads float4 from neighbouring addresses."""
CONFLICTS = 0.3
"""Maximum share of shared-memory wavefronts spent on bank conflicts before advice is given."""
SATURATED = 80.0
"""Percentage of peak DRAM throughput above which only less traffic helps."""
EXCESS = 1.3
"""DRAM traffic, as a multiple of the minimum, above which it counts as excess."""
FEW_WARPS = 50.0
STALLED = 2.0
"""Warps that wait for one reason, per issuing warp, above which the stall is reported."""


class Counters(NamedTuple):
    """Counters of one launch of one kernel."""

    kernel: str
    values: dict[str, float]
    """Values by metric name (see METRICS), in base units."""
    reduced: bool = False
    """True if measured at smaller sizes than the problem's, where GPU and DRAM utilisation mean nothing."""
    waiting: tuple[Waiting, ...] = ()
    """Sampled lines of the candidate at which warps wait longest."""

    def ratio(self, above: float, below: str) -> float:
        return above / self.values[below] if self.values.get(below) else 0.0

    def total(self, *names: str) -> float:
        return sum(self.values.get(name, 0.0) for name in names)


def parsed(text: str) -> list[Counters]:
    """Parse the launches in a profiler's output; other lines are skipped."""
    launches: dict[tuple[str, str], Counters] = {}
    columns: list[str] = []
    for cells in rows(text):
        if {"Kernel Name", "Metric Name", "Metric Value"} <= set(cells):
            columns = cells
        elif len(cells) == len(columns):
            row = dict(zip(columns, cells, strict=True))
            key = row.get("ID", ""), row["Kernel Name"]
            launch = launches.setdefault(key, Counters(row["Kernel Name"].split("(")[0], {}))
            try:
                launch.values[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
            except ValueError:
                # Metrics that a GPU cannot count are printed as n/a.
                continue
    return [launch for launch in launches.values() if launch.values]


def advice(launches: Sequence[Counters], least_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield kind and sentence of each advice for the longest launch, most promising first.

    `least_bytes` is the minimum traffic of all launches together.
    """
    if not launches:
        return
    longest = max(launches, key=lambda launch: launch.values.get(DURATION, 0.0))
    values, name = longest.values, longest.kernel
    if 0 < values.get(WAVES, 1.0) < 1 and not longest.reduced:
        yield (
            "few-blocks",
            f"The blocks of {name} fill {values[WAVES]:.0%} of the GPU once: use more of them, and split "
            "long rows or reductions over several blocks.",
        )
    for way, words in (("ld", "loads"), ("st", "stores")):
        sectors = longest.ratio(
            longest.total(_GLOBAL.format("sectors", way)), _GLOBAL.format("requests", way)
        )
        if sectors > MOST_SECTORS:
            yield (
                "uncoalesced",
                f"A warp's global {words} in {name} touch {sectors:.3g} sectors of 32 bytes each, 4 would do "
                "for floats: let neighbouring threads access neighbouring addresses.",
            )
    conflicts = longest.ratio(longest.total(*map(_CONFLICTS.format, ("ld", "st"))), WAVEFRONTS)
    if conflicts > CONFLICTS:
        yield (
            "bank-conflicts",
            f"{conflicts:.0%} of what {name} asks of shared memory is conflicts between banks: pad the rows "
            "of its arrays by one element, or change which thread reads which.",
        )
    yield from _of_traffic(launches, longest, least_bytes)
    yield from _of_warps(longest)


def _of_traffic(
    launches: Sequence[Counters], longest: Counters, least_bytes: int
) -> Iterator[tuple[str, str]]:
    moved = sum(launch.total(READ, WRITTEN) for launch in launches)
    saturated = longest.values.get(DRAM, 0.0) > SATURATED and not longest.reduced
    if saturated and moved > EXCESS * least_bytes:
        yield (
            "excess-traffic",
            f"DRAM is busy at {longest.values[DRAM]:.0f} % with {moved / 1e6:.3g} MB, where "
            f"{least_bytes / 1e6:.3g} MB would do: read each input once, keep what is needed again in "
            "registers or shared memory, and pass nothing through memory between kernels.",
        )


def _limiter(launch: Counters) -> tuple[str, float] | None:
    """Return the resource that limits the blocks per multiprocessor, and their number; None if unknown."""
    limits = {
        what: launch.values.get(_LIMIT.format(what), 0.0) for what in ("registers", "shared_mem", "warps")
    }
    known = {what: blocks for what, blocks in limits.items() if blocks > 0}
    return min(known.items(), key=lambda limit: limit[1], default=None)


def _of_warps(longest: Counters) -> Iterator[tuple[str, str]]:
    values, name = longest.values, longest.kernel
    limiter = _limiter(longest)
    least = limiter[0] if limiter else "warps"
    if 0 < values.get(MOST_OCCUPANCY, 100.0) < FEW_WARPS and least != "warps":
        words = {"registers": "registers a thread", "shared_mem": "shared memory a block"}[least]
        yield (
            "occupancy-limit",
            f"At most {values[MOST_OCCUPANCY]:.0f} % of the warps of a multiprocessor can run {name}, for "
            f"its {words}: make its tile smaller, so that more warps hide latency.",
        )
    stalls = {name: values.get(_STALL.format(name), 0.0) for name in STALLS}
    worst = max(stalls, key=lambda reason: stalls[reason])
    if stalls[worst] > STALLED:
        yield (
            f"stalled-{worst.replace('_', '-')}",
            f"For each warp of {name} that issues, {stalls[worst]:.2g} wait {STALLS[worst]}."
            + (f" They wait longest at line {longest.waiting[0].line}." if longest.waiting else ""),
        )


def figures(launches: Sequence[Counters]) -> list[str]:
    """Return a line for each launch, longest first, each followed by the lines at which its warps wait."""
    ordered = sorted(launches, key=lambda launch: -launch.values.get(DURATION, 0.0))
    return [line for launch in ordered for line in _lines(launch)]


def _lines(launch: Counters) -> Iterator[str]:
    sizes = " at reduced sizes" if launch.reduced else ""
    yield f"ncu{sizes}, {launch.kernel}: {', '.join(_figures(launch)) or 'no counters'}"
    if launch.waiting:
        yield f"where warps of {launch.kernel} wait:"
        yield from (f"  {waiting}" for waiting in launch.waiting)


def _figures(launch: Counters) -> Iterator[str]:
    shown = (
        (DURATION, 1e-6, "{:.4g} ms"), (DRAM, 1, "DRAM at {:.0f} %"), (OCCUPANCY, 1, "warps at {:.0f} %"),
        (WAVES, 1, "{:.3g} waves"),
    )  # fmt: skip
    for name, unit, words in shown:
        if name in launch.values:
            yield words.format(launch.values[name] * unit)
    for way, what in (("ld", "load"), ("st", "store")):
        sectors = launch.ratio(launch.total(_GLOBAL.format("sectors", way)), _GLOBAL.format("requests", way))
        if sectors:
            yield f"{sectors:.3g} sectors a {what}"
    yield from _bounds(launch)


def _bounds(launch: Counters) -> Iterator[str]:
    """Yield the launch's traffic and its minimum time, its block limit, busiest pipe and main stall."""
    values = launch.values
    moved, took = launch.total(READ, WRITTEN), values.get(DURATION, 0.0)
    if moved and took and values.get(DRAM):
        yield f"{moved / 1e6:.3g} MB, {took * 1e-6 * values[DRAM] / 100:.3g} ms at the DRAM's peak"
    limiter = _limiter(launch)
    if limiter:
        words = {"registers": "registers", "shared_mem": "shared memory", "warps": "their warps"}[limiter[0]]
        yield f"{limiter[1]:.0f} blocks a multiprocessor for {words}"
    busiest = max(PIPES, key=lambda pipe: values.get(pipe, 0.0))
    if values.get(busiest):
        yield f"busiest pipe: {PIPES[busiest]} at {values[busiest]:.0f} %"
    stalls = {name: values.get(_STALL.format(name), 0.0) for name in STALLS}
    worst = max(stalls, key=lambda reason: stalls[reason])
    if stalls[worst] > 0:
        yield f"{stalls[worst]:.3g} warps wait for {worst} for each that issues"
