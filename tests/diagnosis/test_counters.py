"""What ncu prints becomes counters, and counters become the one recommendation."""

from itertools import count

import pytest

from agent.diagnosis.performance import counters
from agent.diagnosis.performance.counters import Counters

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
IDENTITY = '"4711","python3.12","127.0.0.1"'
LAUNCH = '"1","7","(256, 1, 1)","(1024, 1, 1)","0","9.0","Command line profiler metrics"'


def table(*launches: tuple[str, dict[str, str]]) -> str:
    """As `ncu --csv` prints it: a row for each metric of each launch."""
    rows = [
        f'"{number}",{IDENTITY},"{kernel}",{LAUNCH},"{metric}","","{value}"'
        for number, (kernel, values) in zip(count(), launches, strict=False)
        for metric, value in values.items()
    ]
    return "\n".join(["==PROF== Connected to process 4711", "hello", HEADER, *rows, "==PROF== Disconnected"])


def test_every_launch_has_its_counters() -> None:
    text = table(
        ("row_kernel(const float *, float *, int)", {counters.DURATION: "1,234,567", counters.DRAM: "81.5"}),
        ("void scale<4>(float *)", {counters.DURATION: "2000", counters.DRAM: "n/a"}),
        ("row_kernel(const float *, float *, int)", {counters.DURATION: "3000"}),
    )
    found = counters.parsed(text)
    assert [launch.kernel for launch in found] == ["row_kernel", "void scale<4>", "row_kernel"]
    assert found[0].values == {counters.DURATION: 1_234_567.0, counters.DRAM: 81.5}
    assert found[1].values == {counters.DURATION: 2000.0}


def test_what_a_candidate_prints_is_no_row() -> None:
    assert counters.parsed('"a","b"\n"Kernel Name"\nnothing\n') == []
    assert counters.parsed("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n") == []


SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({counters.WAVES: 0.25}, "few-blocks", "25%"),
        ({SECTORS: 32_000, REQUESTS: 1000}, "uncoalesced", "32 sectors"),
        ({CONFLICTS: 700, counters.WAVEFRONTS: 1000}, "bank-conflicts", "70%"),
        (
            {counters.DRAM: 91, counters.READ: 3e6, counters.WRITTEN: 1e6},
            "excess-traffic",
            "4 MB, where 2 MB",
        ),
        (
            {counters.MOST_OCCUPANCY: 25, "launch__occupancy_limit_registers": 2,
             "launch__occupancy_limit_shared_mem": 8, "launch__occupancy_limit_warps": 8},
            "occupancy-limit",
            "registers a thread",
        ),
        (
            {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 9.5,
             "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": 3},
            "stalled-long-scoreboard",
            "9.5 wait for global memory",
        ),
    ],
)  # fmt: skip
def test_counters_speak_for_a_change(values: dict[str, float], kind: str, words: str) -> None:
    quick = Counters("other", {counters.DURATION: 1.0, counters.WAVES: 0.1})
    slow = Counters("row_kernel", {counters.DURATION: 9.0} | values)
    found = next(counters.advice([quick, slow], 2_000_000))
    assert found[0] == kind
    assert words in found[1]
    assert counters.figures([quick, slow])[0].startswith("ncu, row_kernel: 9e-06 ms")


def test_a_launch_is_held_against_its_own_floor_and_its_limits() -> None:
    values = {
        counters.DURATION: 2e6, counters.DRAM: 50.0, counters.READ: 3e8, counters.WRITTEN: 1e8,
        "launch__occupancy_limit_registers": 4, "launch__occupancy_limit_shared_mem": 2,
        "launch__occupancy_limit_warps": 8,
        "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": 3.25,
    }  # fmt: skip
    (line,) = counters.figures([Counters("row_kernel", values)])
    assert "400 MB, 1 ms at the DRAM's peak" in line
    assert "2 blocks a multiprocessor for shared memory" in line
    assert "3.25 warps wait for barrier for each that issues" in line
    (unknown,) = counters.figures([Counters("row_kernel", {counters.DURATION: 2e6})])
    assert unknown == "ncu, row_kernel: 2 ms"


def test_reduced_sizes_say_nothing_of_blocks_and_traffic() -> None:
    values = {counters.DURATION: 9.0, counters.WAVES: 0.1, counters.DRAM: 92.0, counters.READ: 1e9}
    launch = Counters("row_kernel", values)
    assert [kind for kind, _ in counters.advice([launch], 2_000)] == ["few-blocks", "excess-traffic"]
    reduced = launch._replace(reduced=True)
    assert list(counters.advice([reduced], 2_000)) == []
    assert counters.figures([reduced])[0].startswith("ncu at reduced sizes, row_kernel")


def test_counters_of_a_good_kernel_speak_for_nothing() -> None:
    values = {
        counters.DURATION: 9.0, counters.DRAM: 92.0, counters.READ: 1e6, counters.WRITTEN: 1e6,
        counters.WAVES: 8.0, SECTORS: 16_000, REQUESTS: 1000, counters.MOST_OCCUPANCY: 100.0,
    }  # fmt: skip
    assert list(counters.advice([Counters("row_kernel", values)], 2_000_000)) == []
    assert list(counters.advice([], 2_000_000)) == []


def test_two_dozen_metrics_are_asked_for() -> None:
    assert len(set(counters.METRICS)) == len(counters.METRICS)
    assert 24 <= len(counters.METRICS) <= 32


@pytest.mark.parametrize(
    "printed",
    ['"Metric Name","Kernel Name"\n"x","rows"\n', '"' + "x" * 200_000 + '"\n', '"\0"\n', '"\n'],
)
def test_what_a_program_prints_for_a_table_is_no_fault(printed: str) -> None:
    assert counters.parsed(printed) == []
