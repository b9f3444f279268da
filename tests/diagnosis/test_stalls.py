"""What ncu's source page says of a kernel, by lines of the candidate.

`ncu_source_page.txt` is what ncu 2025.3.1 printed on an H200 for KERNEL, whose first line is line 7 of
candidate.py; most rows of instructions are left out.
"""

from pathlib import Path

import pytest

from agent.diagnosis.performance import counters, stalls
from agent.diagnosis.performance.counters import DURATION, Counters

KERNEL = """\
__global__ void rows(const float* x, float* y, int n) {
    __shared__ float part[256];
    float total = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        total += expf(x[(size_t)blockIdx.x * n + i]);
    part[threadIdx.x] = total;
    __syncthreads();
    for (int s = 128; s > 0; s /= 2) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    y[(size_t)blockIdx.x] = part[0] / part[1];
}
"""
SOURCE = "\n" * 6 + KERNEL
HEAD = '"Line No","Source","Address","Source","# Samples","stall_barrier","stall_gmma","stall_selected"\n'


@pytest.fixture(scope="module")
def page() -> str:
    return Path(__file__).with_name("ncu_source_page.txt").read_text()


def test_the_line_with_the_loads_waits_for_memory(page: str) -> None:
    first, second = stalls.parsed(page, "candidate.py", SOURCE)
    assert (first.line, first.reason) == (11, "global memory")
    assert first.code == "total += expf(x[(size_t)blockIdx.x * n + i]);"
    assert first.share > 0.8
    assert (second.line, second.reason) == (15, "a barrier")
    assert second.code.startswith("if (threadIdx.x < s)")


def test_shares_are_of_all_that_waits(page: str) -> None:
    # A row of an instruction repeats what is in its line's, and warps that issue wait for nothing.
    waited = 15 - 1 + 154 - 37 - 13 + 5634 - 124 - 55 + 13 - 1 + 412 - 11 - 6 + 2 - 2 + 63 - 4 + 19 - 2
    [first, *_] = stalls.parsed(page, "candidate.py", SOURCE)
    assert first.share == pytest.approx((5634 - 124 - 55) / waited)


def test_lines_of_other_files_count_and_are_not_named() -> None:
    table = HEAD + '"3","","-","-","90","90","0","0"\n'
    own = HEAD + '"1","x","-","-","20","0","10","10"\n'
    page = f'"File Path","/usr/include/cub/reduce.cuh"\n{table}"File Path","/build/candidate.py"\n{own}'
    [found] = stalls.parsed(page, "candidate.py", "wgmma();\n\n\n")
    assert (found.line, found.share, found.code) == (1, 0.1, "wgmma();")
    assert found.reason == "gmma", "a reason without words keeps its name"


@pytest.mark.parametrize(
    "said",
    [
        "",
        "==ERROR== nothing was profiled",
        '"File Path"\n"Line No"\n"7"\n',
        '"File Path","/build/candidate.py"\n' + HEAD + '"x","","-","-","1","1","1","1"\n',
        '"File Path","/build/candidate.py"\n' + HEAD + '"99999","","-","-","1","1","0","0"\n',
        '"File Path","/build/candidate.py"\n' + HEAD + '"1","","-","-","1","many","-3","0"\n',
        '"File Path","/build/candidate.py"\n' + HEAD + f'"{"9" * 9000}","","-","-","1","1","0","0"\n',
        '"File Path","/build/candidate.py"\n' + HEAD + f'"{"x" * 200_000}"\n',
        '"File Path","/build/candidate.py"\n' + HEAD + '"1","f("a","b")","-","-","1","1","1","1"\n',
    ],
)
def test_what_is_no_such_page_says_nothing(said: str) -> None:
    assert stalls.parsed(said, "candidate.py", SOURCE) == ()


def test_the_figures_and_the_advice_name_the_lines(page: str) -> None:
    waiting = stalls.parsed(page, "candidate.py", SOURCE)
    stalled = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
    launch = Counters("rows", {DURATION: 9000.0, stalled: 20.0}, waiting=waiting)
    shorter = Counters("other", {DURATION: 10.0})
    lines = counters.figures([shorter, launch])
    assert lines[1] == "where warps of rows wait:"
    assert lines[2].startswith("  line 11, ")
    assert lines[-1].startswith("ncu, other")
    [(kind, advice)] = counters.advice([shorter, launch], 1)
    assert kind == "stalled-long-scoreboard"
    assert advice.endswith("They wait longest at line 11.")


def test_the_busiest_pipe_is_named() -> None:
    busy = {"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": 61.0}
    busy["sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"] = 20.0
    [line] = counters.figures([Counters("rows", {DURATION: 9000.0, **busy})])
    assert line.endswith("busiest pipe: special functions and conversions at 61 %")
    [idle] = counters.figures([Counters("rows", {DURATION: 9000.0})])
    assert "pipe" not in idle
    assert set(counters.PIPES) <= set(counters.METRICS)
